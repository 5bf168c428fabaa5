#include "trireme/comm/wire/wire_steps.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trireme/comm/wire/algorithms.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

std::vector<int> every_rank(const Wire& wire) {
  std::vector<int> ranks(static_cast<size_t>(wire.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Says of the transfers of a scope that ranks come to the call by them.
class EnteringScope {
 public:
  explicit EnteringScope(Wire& wire) : wire_(wire) { wire_.set_entering(true); }
  ~EnteringScope() { wire_.set_entering(false); }
  EnteringScope(const EnteringScope&) = delete;
  EnteringScope& operator=(const EnteringScope&) = delete;

 private:
  Wire& wire_;
};

}  // namespace

WireSteps::WireSteps(std::shared_ptr<Wire> wire) : WireSteps(wire, every_rank(*wire)) {}

WireSteps::WireSteps(std::shared_ptr<Wire> wire, std::vector<int> ranks)
    : wire_(std::move(wire)), ranks_(std::move(ranks)), words_(ranks_.size()) {
  const auto me = std::find(ranks_.begin(), ranks_.end(), wire_->rank());
  TRIREME_ASSERT(me != ranks_.end());
  rank_ = static_cast<int>(me - ranks_.begin());
}

void WireSteps::begin(const Collective& call, const Deadline& deadline) {
  world().check();
  signature_ = signature(call);
  wire_->begin(signature_, deadline);
}

void WireSteps::enter(std::span<const std::byte> payload) {
  if (agree(signature_, payload)) [[likely]]
    return;
  std::vector<int> members;
  for (const int rank : ranks_)
    members.push_back(wire_->members()[static_cast<size_t>(rank)]);
  throw InvalidArgument(describe_mismatch(words_, members));
}

bool WireSteps::agree(uint64_t word, std::span<const std::byte> payload) {
  if (size() <= tuning().direct_ranks)
    agree_directly(word, payload);
  else
    agree_by_tree(word);
  return std::all_of(
      words_.begin(), words_.end(), [word](uint64_t each) { return each == word; });
}

// Everybody's receives take the longest message there may be: who made another call
// sends another length.
void WireSteps::agree_directly(uint64_t word, std::span<const std::byte> payload) {
  TRIREME_ASSERT(payload.size() <= tuning().payload_bytes);
  const EnteringScope entering(*wire_);
  if (slots_.data() == nullptr)
    slots_ = take(wire_->entry_bytes() * static_cast<size_t>(size()));
  std::byte* mine = slot(rank_);
  std::memcpy(mine, &word, sizeof word);
  if (!payload.empty())
    std::memcpy(mine + sizeof word, payload.data(), payload.size());
  for (int i = 1; i < size(); ++i)
    receive(before(i), slot(before(i)), wire_->entry_bytes());
  for (int i = 1; i < size(); ++i)
    send(after(i), mine, sizeof word + payload.size());
  finish();
  for (int peer = 0; peer < size(); ++peer)
    std::memcpy(&words_[static_cast<size_t>(peer)], slot(peer), sizeof word);
}

// The highest of all words and of all their complements tell everybody the same:
// whether there is more than one. Only then all of them are collected. A maximum may
// count a rank twice, so it takes the shortest way: each tells the one that is 1, 2, 4…
// further what it knows.
void WireSteps::agree_by_tree(uint64_t word) {
  const EnteringScope entering(*wire_);
  uint64_t highest[2] = {word, ~word};
  for (int distance = 1; distance < size(); distance *= 2) {
    uint64_t theirs[2] = {0, 0}, mine[2] = {highest[0], highest[1]};
    receive(before(distance), reinterpret_cast<std::byte*>(theirs), sizeof theirs);
    send(after(distance), reinterpret_cast<const std::byte*>(mine), sizeof mine);
    finish();
    for (int i = 0; i < 2; ++i)
      highest[i] = std::max(highest[i], theirs[i]);
  }
  std::fill(words_.begin(), words_.end(), word);
  if (highest[0] != ~highest[1])
    gather_all(
        *this,
        {reinterpret_cast<const std::byte*>(&word), sizeof word},
        reinterpret_cast<std::byte*>(words_.data()));
}

}  // namespace trireme::comm
