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

/// What the ranks of a host tell one another first.
struct HostsCall::Slot {
  uint64_t signature = 0;
  std::byte values[kNewsBytes] = {};
};

/// What a leader tells the others of its host.
struct HostsCall::News {
  enum class State : uint64_t { Agreed, Differs, Failed };
  State state = State::Agreed;
  std::byte bytes[kNewsBytes] = {};
};

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
  value_bytes_ = values.size();
  if (leads() && value_bytes_ > 0)
    values_ = take(value_bytes_ * static_cast<size_t>(group_.size()));
  try {
    gather_slots(values);
  } catch (const PeerError& error) {
    // A rank has left this group; the other hosts wait for word from us.
    if (leads()) {
      group_.inner->check();
      post_failure(error);
    }
    throw;
  }
  if (host_agrees_)
    gather_values(values);
  if (!leads())
    return;
  try {
    meet_hosts();
  } catch (const PeerError&) {
    trouble_ = std::current_exception();  // the others of this host are told first
  }
}

void HostsCall::gather_slots(std::span<const std::byte> values) {
  const int ranks = layout().ranks_of(layout().mine);
  const auto first = static_cast<size_t>(layout().leader(layout().mine));
  Slot mine{.signature = signature_};
  if (value_bytes_ > 0 && value_bytes_ <= kNewsBytes)
    std::memcpy(mine.values, values.data(), value_bytes_);
  PerRank<Slot> slots(static_cast<size_t>(ranks));
  PerRank<Piece> take(slots.size());
  for (size_t k = 0; k < slots.size(); ++k)
    take[k] = {reinterpret_cast<std::byte*>(&slots[k]), sizeof(Slot)};
  const Piece give{reinterpret_cast<std::byte*>(&mine), sizeof(Slot)};
  group_.inner->run(
      {.kind = CollectiveKind::AllGather,
       .count = sizeof(Slot),
       .give = {&give, 1},
       .take = take,
       .part_of = signature_},
      inside_);
  for (size_t k = 0; k < slots.size(); ++k) {
    signatures_[first + k] = slots[k].signature;
    host_agrees_ = host_agrees_ && slots[k].signature == signature_;
    if (leads() && value_bytes_ > 0 && value_bytes_ <= kNewsBytes)
      std::memcpy(
          values_.data() + (first + k) * value_bytes_, slots[k].values, value_bytes_);
  }
}

// What was too long for the slots.
void HostsCall::gather_values(std::span<const std::byte> values) {
  if (value_bytes_ <= kNewsBytes)
    return;
  const int ranks = layout().ranks_of(layout().mine);
  PerRank<Piece> take;
  for (int k = 0; leads() && k < ranks; ++k)
    take.push_back(
        {values_.data() + static_cast<size_t>(group_.rank() + k) * value_bytes_,
         value_bytes_});
  const Piece give{const_cast<std::byte*>(values.data()), value_bytes_};
  inside(
      {.kind = CollectiveKind::Gather,
       .root = 0,
       .count = static_cast<int64_t>(value_bytes_),
       .give = {&give, 1},
       .take = take});
}

void HostsCall::meet_hosts() {
  const auto block = [&](int host) {
    return value_bytes_ * static_cast<size_t>(layout().ranks_of(host));
  };
  const auto place = [&](int host) {
    return values_.data() + value_bytes_ * static_cast<size_t>(layout().leader(host));
  };
  const size_t longest = value_bytes_ * static_cast<size_t>(layout().most_ranks());
  const bool rides = host_agrees_ && longest > 0 && leaders().carries(longest);
  const std::byte* mine = rides ? place(layout().mine) : nullptr;
  agreed_ = leaders().agree(
      host_agrees_ ? signature_ : kHostDiffers,
      {mine, rides ? block(layout().mine) : 0});
  if (!agreed_) {
    check_failures();
    return trade_blocks(
        reinterpret_cast<std::byte*>(signatures_.data()), sizeof(uint64_t));
  }
  for (int host = 0; rides && host < layout().hosts(); ++host)
    if (host != layout().mine)
      std::memcpy(place(host), leaders().payload(host), block(host));
  if (!rides && value_bytes_ > 0)
    trade_blocks(values_.data(), value_bytes_);
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
  TRIREME_ASSERT(news.size() <= kNewsBytes);
  News told;
  if (trouble_)
    told.state = News::State::Failed;
  else if (!agreed_)
    told.state = News::State::Differs;
  if (leads() && !news.empty())
    std::memcpy(told.bytes, news.data(), news.size());
  if (trouble_)
    group_.inner->check();  // it may be the whole world that was stopped
  spread({reinterpret_cast<std::byte*>(&told), sizeof told});
  if (told.state != News::State::Agreed)
    fail_with(told);
  if (!leads() && !news.empty())
    std::memcpy(news.data(), told.bytes, news.size());
}

void HostsCall::fail_with(const News& news) {
  if (news.state == News::State::Differs) {
    spread(
        {reinterpret_cast<std::byte*>(signatures_.data()),
         signatures_.size() * sizeof(uint64_t)});
    throw InvalidArgument(
        describe_mismatch(signatures_, group_.all.wire().members()));
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
