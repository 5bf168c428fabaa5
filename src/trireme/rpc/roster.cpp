#include "trireme/rpc/roster.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/net/bytes.h"
#include "trireme/net/sha256.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kMemberLayout = 2;
constexpr std::size_t kMostAddresses = 16;
constexpr std::size_t kLongestAddress = 512;
constexpr std::size_t kLongestName = 127;
// What makes no sense may have been left by an earlier start: so long it may take until
// its place is filled anew.
constexpr milliseconds kGrace{2000};
// How often those who wait look whether somebody has come anew.
constexpr milliseconds kLookAgain{250};
constexpr milliseconds kPause{20};

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                  (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || c == '-';
         });
}

std::string member_key(int rank) {
  return text("member/", rank);
}

// Which entries a worker has seen last; and that it has seen those of a digest.
std::string met_key(int rank) {
  return text("met/", rank);
}
std::string met_key(int rank, const std::string& digest) {
  return text(met_key(rank), "/", digest);
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// What a worker says of itself: `start` tells one start of it from another.
struct Entry {
  int world_size = 0;
  std::uint64_t start = 0;
  Member member;
};

std::string encode_entry(const Entry& entry) {
  net::ByteWriter out;
  out.u32(kMemberLayout)
      .u32(static_cast<std::uint32_t>(entry.world_size))
      .u64(entry.start)
      .string(encode_member(entry.member));
  return out.take();
}

Entry decode_entry(std::string_view bytes) {
  net::ByteReader in(bytes, "a worker's entry in the store");
  Entry entry;
  const std::uint32_t layout = in.u32();
  if (layout != kMemberLayout)
    throw InvalidArgument(text(
        "[rpc] expected a worker's entry of version ",
        kMemberLayout,
        " in the store, got version ",
        layout,
        "; run the same release of Trireme on all workers"));
  entry.world_size = static_cast<int>(in.u32());
  entry.start = in.u64();
  entry.member = decode_member(in.view(net::kStoreValueBytes));
  in.expect_end();
  return entry;
}

// One worker's way through the meeting. All see the same entries, name them by their
// digest, and go on when all others have named them so too: an entry that an earlier
// start has left belongs to nobody who would.
class Meeting {
 public:
  Meeting(net::Store& store, const Member& me, int world_size, Deadline deadline)
      : store_(store),
        rank_(me.info.id),
        size_(world_size),
        deadline_(deadline),
        mine_(encode_entry(
            {.world_size = world_size, .start = random_number(), .member = me})) {}

  std::vector<Member> run() {
    store_.set(member_key(rank_), mine_);
    for (;;) {
      const std::vector<std::string> values = wait_for_all();
      const std::optional<std::vector<Member>> members = read(values);
      if (!members) {
        std::this_thread::sleep_for(kPause);
      } else if (all_agree(digest(values))) {
        check_names(*members);
        return *members;
      }
    }
  }

 private:
  Deadline moment() const {
    return Deadline::after(
        std::min(kLookAgain, std::chrono::ceil<milliseconds>(deadline_.remaining())));
  }

  // Waits until all keys are there; false if there is time left, and some are not.
  bool wait_a_moment(const std::vector<std::string>& keys, const char* what) {
    try {
      store_.wait(keys, moment());
      return true;
    } catch (const TimeoutError&) {
      if (deadline_.expired())
        refuse_missing(keys, what);
      return false;
    }
  }

  [[noreturn]] void refuse_missing(
      const std::vector<std::string>& keys, const char* what) {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!store_.try_get(keys[i]))
        missing.push_back(std::to_string(i));
    throw TimeoutError(text(
        "[rpc] expected ",
        what,
        " of all ",
        size_,
        " workers within ",
        deadline_.allowed().count(),
        " ms, got none from ",
        missing.size() == 1 ? "rank " : "ranks ",
        list_names(missing),
        "; check that they have started, still run, and use the same store"));
  }

  std::vector<std::string> wait_for_all() {
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank)
      keys.push_back(member_key(rank));
    while (!wait_a_moment(keys, "the names"))
      check_present(keys);
    std::vector<std::string> values;
    for (const std::string& key : keys)
      values.push_back(store_.get(key, deadline_));
    return values;
  }

  // Who expects another world would make the rest wait in vain.
  void check_present(const std::vector<std::string>& keys) {
    std::vector<std::string> values;
    for (const std::string& key : keys)
      values.push_back(store_.try_get(key).value_or(""));
    read(values);
  }

  // The members, if all entries are there and fit together.
  std::optional<std::vector<Member>> read(const std::vector<std::string>& values) {
    if (values[static_cast<std::size_t>(rank_)] != mine_)
      throw InvalidArgument(text(
          "[rpc] expected to be the only worker of rank ",
          rank_,
          ", got another one; give each worker its own rank, and each start of a job "
          "its own place in the store"));
    std::vector<Member> members;
    std::string trouble;
    for (std::size_t rank = 0; rank < values.size() && trouble.empty(); ++rank)
      if (!values[rank].empty())
        trouble = read_one(static_cast<int>(rank), values[rank], members);
    note_trouble(trouble);
    if (members.size() < values.size())
      return std::nullopt;
    return members;
  }

  std::string read_one(
      int rank, const std::string& value, std::vector<Member>& members) const {
    try {
      Entry entry = decode_entry(value);
      if (entry.world_size != size_)
        return text("a world of ", size_, " workers, got one of ", entry.world_size);
      if (entry.member.info.id != rank)
        return text("its own entry there, got that of rank ", entry.member.info.id);
      members.push_back(std::move(entry.member));
      return "";
    } catch (const InvalidArgument& error) {
      return text("an entry in the store, got something else (", error.what(), ")");
    }
  }

  void note_trouble(const std::string& trouble) {
    if (trouble != trouble_) {
      trouble_ = trouble;
      trouble_since_ = Deadline::after(kGrace);
    }
    if (!trouble_.empty() && (trouble_since_.expired() || deadline_.expired()))
      throw InvalidArgument(text(
          "[rpc] expected from each worker that rank ",
          rank_,
          " meets ",
          trouble_,
          "; start all workers with the same world size, and clear the store of other "
          "jobs"));
  }

  static std::string digest(const std::vector<std::string>& values) {
    net::ByteWriter all;
    for (const std::string& value : values)
      all.string(value);
    std::string hex;
    for (const auto byte : net::sha256(std::as_bytes(std::span(all.bytes()))))
      for (const int half : {static_cast<int>(byte) >> 4, static_cast<int>(byte) & 15})
        hex += "0123456789abcdef"[half];
    return hex;
  }

  // Waits until all others have seen the same entries; false if there is time left.
  bool all_agree(const std::string& digest) {
    const std::string mine = met_key(rank_);
    if (const auto former = store_.try_get(mine); former && *former != digest)
      store_.erase(met_key(rank_, *former));
    store_.set(mine, digest);
    store_.set(met_key(rank_, digest), "");
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank)
      keys.push_back(met_key(rank, digest));
    return wait_a_moment(keys, "the agreement");
  }

  static void check_names(const std::vector<Member>& members) {
    std::map<std::string_view, WorkerId> first;
    for (const Member& member : members) {
      const auto [at, fresh] = first.emplace(member.info.name, member.info.id);
      if (!fresh)
        throw InvalidArgument(text(
            "[rpc] expected each worker's name once, got \"",
            member.info.name,
            "\" from ranks ",
            at->second,
            " and ",
            member.info.id,
            "; give each worker a name of its own"));
    }
  }

  net::Store& store_;
  const int rank_, size_;
  const Deadline deadline_;
  const std::string mine_;
  std::string trouble_;
  Deadline trouble_since_ = Deadline::after(kGrace);
};

// Whatever the launcher may call a program: "data loader", "eval-1.5".
void check_role(std::string_view role) {
  const auto odd = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (role.empty() || role.size() > kLongestName ||
      std::any_of(role.begin(), role.end(), odd))
    throw InvalidArgument(text(
        "[rpc] expected a worker's role of 1 to ",
        kLongestName,
        " bytes without control characters, got ",
        in_quotes(role),
        "; choose one like \"trainer\""));
}

}  // namespace

void check_worker_name(std::string_view name) {
  if (!is_name(name))
    throw InvalidArgument(text(
        "[rpc] expected a worker's name of 1 to ",
        kLongestName,
        " letters, digits, '_', ':' and '-', got ",
        in_quotes(name),
        "; choose one like \"trainer0\""));
}

std::string encode_member(const Member& member) {
  net::ByteWriter out;
  out.u32(static_cast<std::uint32_t>(member.info.id))
      .string(member.info.name)
      .string(member.info.role)
      .u64(member.info.message_bytes)
      .u32(static_cast<std::uint32_t>(member.addresses.size()));
  for (const net::Address& address : member.addresses)
    out.string(address.text());
  write_place(out, member.place);
  return out.take();
}

Member decode_member(std::string_view bytes) {
  net::ByteReader in(bytes, "a worker's entry in the store");
  Member member;
  member.info.id = static_cast<WorkerId>(in.u32());
  member.info.name = in.string(kLongestName);
  check_worker_name(member.info.name);
  member.info.role = in.string(kLongestName);
  check_role(member.info.role);
  member.info.message_bytes = in.u64();
  const std::uint32_t addresses = in.u32();
  if (addresses == 0 || addresses > kMostAddresses)
    throw InvalidArgument(text(
        "[rpc] expected 1 to ",
        kMostAddresses,
        " addresses of a worker, got ",
        addresses,
        "; run the same release of Trireme on all workers"));
  for (std::uint32_t i = 0; i < addresses; ++i)
    member.addresses.push_back(net::Address::parse(in.view(kLongestAddress)));
  member.place = read_place(in);
  in.expect_end();
  return member;
}

std::vector<Member> meet(
    net::Store& store, const Member& me, int world_size, Deadline deadline) {
  if (world_size < 1 || world_size > kMostWorkers)
    throw InvalidArgument(text(
        "[rpc] expected a world of 1 to ",
        kMostWorkers,
        " workers, got ",
        world_size,
        "; count those that take part"));
  if (me.info.id < 0 || me.info.id >= world_size)
    throw InvalidArgument(text(
        "[rpc] expected a worker's rank from 0 to ",
        world_size - 1,
        ", got ",
        me.info.id,
        "; ranks count from 0"));
  decode_member(encode_member(me));  // refuses here what the others would refuse
  return Meeting(store, me, world_size, deadline).run();
}

std::string meeting_name(net::Store& store, WorkerId me) {
  return store.try_get(met_key(me)).value_or("none");
}

void forget(net::Store& store, WorkerId me) {
  if (const auto digest = store.try_get(met_key(me)))
    store.erase(met_key(me, *digest));
  store.erase(met_key(me));
  store.erase(member_key(me));
}

}  // namespace trireme::rpc
