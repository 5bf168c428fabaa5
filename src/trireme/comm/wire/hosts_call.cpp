#include "trireme/comm/wire/hosts_call.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// What the leaders of hosts say instead of a signature.
constexpr uint64_t kHostDiffers = ~uint64_t{1};
constexpr uint64_t kHostFailed = ~uint64_t{0};

}  // namespace

HostsGroup::HostsGroup(
    std::shared_ptr<SharedEngine> its_inner,
    std::shared_ptr<Wire> wire,
    HostLayout its_layout)
    : inner(std::move(its_inner)), all(wire), layout(std::move(its_layout)) {
  if (layout.leader(layout.mine) == all.rank())
    leaders.emplace(std::move(wire), layout.leaders);
}

namespace {

/// Why a group failed between the hosts, though its world lives.
struct FailureText {
  int32_t origin = -1;
  char words[508] = {};

  static FailureText of(const PeerError& error) {
    FailureText text{.origin = error.rank()};
    std::strncpy(text.words, error.what(), sizeof text.words - 1);
    return text;
  }
  [[noreturn]] void raise() const { throw PeerError(origin, words); }
};

}  // namespace

HostsCall::HostsCall(
    HostsGroup& group, const Collective& call, const Deadline& deadline)
    : group_(group),
      call_(call),
      signature_(signature(call)),
      inside_(deadline),
      between_(inside_.later()),
      after_(between_.later()),
      signatures_(static_cast<size_t>(group.size())) {
  group_.all.world().check();
  group_.all.wire().begin(signature_, between_);
}

void HostsCall::inside(Collective part) const {
  part.part_of = signature_;
  group_.inner->run(part, after_);
}

void HostsCall::enter(std::span<const std::byte> values) {
  // As all ranks see it that have made the same call.
  slot_bytes_ = sizeof(uint64_t) + (values.size() + 7) / 8 * 8;
  try {
    gather_slots(values);
  } catch (const InvalidArgument&) {
    compare_host(std::current_exception());
  } catch (const PeerError& error) {
    // A rank has left this group; the other hosts wait for word from us.
    if (leads()) {
      group_.inner->check();
      post_failure(error);
    }
    throw;
  }
  if (!leads())
    return;
  try {
    meet_hosts();
  } catch (const PeerError&) {
    trouble_ = std::current_exception();  // the others of this host are told first
  }
}

// Every rank's word and values come to its leader, in one step.
void HostsCall::gather_slots(std::span<const std::byte> values) {
  const Buffer mine = take(slot_bytes_);
  std::memcpy(mine.data(), &signature_, sizeof signature_);
  if (!values.empty())
    std::memcpy(mine.data() + sizeof signature_, values.data(), values.size());
  const auto ranks = static_cast<size_t>(layout().ranks_of(layout().mine));
  PerRank<Piece> slots;
  if (leads()) {
    slots_ = take(slot_bytes_ * static_cast<size_t>(group_.size()));
    for (size_t k = 0; k < ranks; ++k)
      slots.push_back({slot(group_.rank() + static_cast<int>(k)), slot_bytes_});
  }
  const Piece give{mine.data(), slot_bytes_};
  group_.inner->run(
      {.kind = CollectiveKind::Gather,
       .root = 0,
       .count = static_cast<int64_t>(slot_bytes_),
       .give = {&give, 1},
       .take = slots,
       .part_of = signature_},
      inside_);
  for (size_t k = 0; leads() && k < ranks; ++k) {
    uint64_t& word = signatures_[static_cast<size_t>(group_.rank()) + k];
    std::memcpy(&word, slots[k].data, sizeof word);
    host_agrees_ = host_agrees_ && word == signature_;
  }
}

// Calls whose slots differ in length have met: everybody of this host has been told,
// and now says what it called.
void HostsCall::compare_host(const std::exception_ptr& error) {
  const auto first = static_cast<size_t>(layout().leader(layout().mine));
  const auto ranks = static_cast<size_t>(layout().ranks_of(layout().mine));
  PerRank<Piece> words;
  for (size_t k = 0; k < ranks; ++k)
    words.push_back(
        {reinterpret_cast<std::byte*>(&signatures_[first + k]), sizeof(uint64_t)});
  const Piece give{reinterpret_cast<std::byte*>(&signature_), sizeof signature_};
  inside(
      {.kind = CollectiveKind::AllGather,
       .dtype = c10::ScalarType::Long,
       .count = 1,
       .give = {&give, 1},
       .take = words});
  for (size_t k = 0; k < ranks; ++k)
    host_agrees_ = host_agrees_ && signatures_[first + k] == signature_;
  if (!host_agrees_)
    return;
  // It was something else, such as no memory, and the other hosts know nothing of it.
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& what) {
    stop_because(what);
  }
}

// A step inside this host has failed for a reason of its own: the others cannot go on.
void HostsCall::stop_because(const InvalidArgument& error) {
  group_.all.world().stop({.origin = group_.all.world().rank(), .why = error.what()});
  throw error;
}

void HostsCall::meet_hosts() {
  const size_t longest = slot_bytes_ * static_cast<size_t>(layout().most_ranks());
  const bool has_values = slot_bytes_ > sizeof(uint64_t);
  const bool rides = host_agrees_ && has_values && leaders().carries(longest);
  const auto block = [&](int host) {
    return slot_bytes_ * static_cast<size_t>(layout().ranks_of(host));
  };
  agreed_ = leaders().agree(
      host_agrees_ ? signature_ : kHostDiffers,
      {rides ? slot(group_.rank()) : nullptr, rides ? block(layout().mine) : 0});
  if (!agreed_) {
    check_failures();
    return trade_blocks(
        reinterpret_cast<std::byte*>(signatures_.data()), sizeof(uint64_t));
  }
  for (int host = 0; rides && host < layout().hosts(); ++host)
    if (host != layout().mine)
      std::memcpy(slot(layout().leader(host)), leaders().payload(host), block(host));
  if (has_values && !rides)
    trade_blocks(slots_.data(), slot_bytes_);
}

// Every host has so many bytes of each of its ranks, and gets those of the others.
void HostsCall::trade_blocks(std::byte* blocks, size_t bytes_a_rank) {
  const auto place = [&](int host) {
    return blocks + bytes_a_rank * static_cast<size_t>(layout().leader(host));
  };
  const auto bytes = [&](int host) {
    return bytes_a_rank * static_cast<size_t>(layout().ranks_of(host));
  };
  for (int i = 1; i < layout().hosts(); ++i) {
    const int host = leaders().before(i);
    leaders().receive(host, place(host), bytes(host));
  }
  for (int i = 1; i < layout().hosts(); ++i)
    leaders().send(leaders().after(i), place(layout().mine), bytes(layout().mine));
  leaders().finish();
}

void HostsCall::post_failure(const PeerError& error) {
  const FailureText words = FailureText::of(error);
  // Among many hosts words do not go directly, so the world has to end.
  if (!leaders().carries(sizeof words))
    return group_.all.world().stop({.origin = error.rank(), .why = error.what()});
  std::byte message[sizeof(uint64_t) + sizeof words];
  std::memcpy(message, &kHostFailed, sizeof(uint64_t));
  std::memcpy(message + sizeof(uint64_t), &words, sizeof words);
  for (const int peer : layout().leaders)
    if (peer != group_.rank())
      group_.all.wire().post(peer, message);
}

void HostsCall::check_failures() const {
  for (int host = 0; host < layout().hosts(); ++host)
    if (leaders().words()[static_cast<size_t>(host)] == kHostFailed) {
      FailureText words;
      std::memcpy(&words, leaders().payload(host), sizeof words);
      words.raise();
    }
}

void HostsCall::announce(std::span<std::byte> news) {
  const Buffer told = take(sizeof(News) + news.size());
  News state = trouble_ ? News::Failed : agreed_ ? News::Agreed : News::Differs;
  std::memcpy(told.data(), &state, sizeof state);
  if (leads() && !news.empty())
    std::memcpy(told.data() + sizeof state, news.data(), news.size());
  if (trouble_)
    group_.inner->check();  // it may be the whole world that was stopped
  try {
    spread({told.data(), told.size()});
    std::memcpy(&state, told.data(), sizeof state);
  } catch (const InvalidArgument& error) {
    if (leads() && agreed())
      stop_because(error);
    state = News::Differs;  // calls with news of another length have met
  }
  if (state != News::Agreed)
    fail_with(state);
  if (!leads() && !news.empty())
    std::memcpy(news.data(), told.data() + sizeof state, news.size());
}

void HostsCall::fail_with(News news) {
  if (news == News::Differs) {
    spread(
        {reinterpret_cast<std::byte*>(signatures_.data()),
         signatures_.size() * sizeof(uint64_t)});
    throw InvalidArgument(describe_mismatch(signatures_, group_.all.wire().members()));
  }
  FailureText words;
  if (trouble_)
    try {
      std::rethrow_exception(trouble_);
    } catch (const PeerError& error) {
      words = FailureText::of(error);
    }
  spread({reinterpret_cast<std::byte*>(&words), sizeof words});
  words.raise();
}

void HostsCall::spread(const Piece& piece) const {
  if (piece.bytes == 0 || group_.inner->size() == 1)
    return;
  PerRank<Piece> take;
  if (!leads()) {
    take = PerRank<Piece>(static_cast<size_t>(group_.inner->size()));
    take[0] = piece;
  }
  inside(
      {.kind = CollectiveKind::Broadcast,
       .root = 0,
       .count = static_cast<int64_t>(piece.bytes),
       .give = {&piece, leads() ? 1U : 0U},
       .take = take});
}

void HostsCall::hand_out(
    std::span<const Piece> give, const Piece& take, size_t longest) const {
  PerRank<Piece> none(static_cast<size_t>(group_.inner->size()));
  PerRank<Piece> mine(none.size());
  mine[0] = take;
  inside(
      {.kind = CollectiveKind::AllToAllUneven,
       .count = static_cast<int64_t>(longest),
       .give = give.empty() ? std::span<const Piece>(none) : give,
       .take = mine});
}

void HostsCall::hand_in(int from, const Piece& piece) const {
  const int giver = inner_rank(from);
  if (giver == 0)
    return;
  PerRank<Piece> give(static_cast<size_t>(group_.inner->size()));
  PerRank<Piece> mine(give.size());
  if (group_.inner->rank() == giver)
    give[0] = piece;
  if (leads())
    mine[static_cast<size_t>(giver)] = piece;
  inside(
      {.kind = CollectiveKind::AllToAllUneven,
       .count = static_cast<int64_t>(piece.bytes),
       .give = give,
       .take = mine});
}

}  // namespace trireme::comm
