#include "trireme/dp/stall_notes.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "trireme/core/error.h"
#include "trireme/dp/round_stats.h"

namespace trireme::dp {
namespace {

// Of all channels of the reducer's own group, the only one.
constexpr int kTag = 0;
// Looks so many times within a timeout, and speaks after half of it.
constexpr int kLooks = 8;

}  // namespace

StallNotes::StallNotes(
    const comm::Group& group, const std::vector<Parameter>& parameters)
    : group_(group), parameters_(parameters), arrived_(parameters.size()) {
  for (auto& round : arrived_)
    round.store(-1, std::memory_order_relaxed);
}

std::chrono::milliseconds StallNotes::every() const {
  return std::max(group_.options().timeout / kLooks, std::chrono::milliseconds(1));
}

void StallNotes::begin(int64_t round) {
  moved();
  round_.store(round, std::memory_order_release);
}

void StallNotes::moved() {
  moved_ns_.store(now_ns(), std::memory_order_relaxed);
}

void StallNotes::end() {
  round_.store(-1, std::memory_order_relaxed);
}

comm::Channel StallNotes::channel(int from, int to) const {
  return comm::Channel(group_, {.from = from, .to = to, .tag = kTag});
}

void StallNotes::tell_if_stalled() {
  const int64_t round = round_.load(std::memory_order_acquire);
  const std::chrono::nanoseconds still(
      now_ns() - moved_ns_.load(std::memory_order_relaxed));
  if (round < 0 || round == told_round_ || still < group_.options().timeout / 2)
    return;
  std::vector<int64_t> note{round};
  for (size_t i = 0; i < arrived_.size(); ++i)
    if (arrived_[i].load(std::memory_order_relaxed) != round)
      note.push_back(static_cast<int64_t>(i));
  if (note.size() == 1)
    return;  // all is here: this rank waits for others
  told_round_ = round;
  try {
    if (ways_.empty())
      for (int peer = 0; peer < group_.size(); ++peer)
        if (peer != group_.rank())
          ways_.push_back(channel(group_.rank(), peer));
    for (const comm::Channel& way : ways_)
      way.try_send({.tensors = {at::tensor(note, at::kLong)}});
  } catch (const Error&) {
    // The world has failed meanwhile, and everybody is told why.
  }
}

std::vector<std::string> StallNotes::told_by(
    int peer, std::span<const int> among) const {
  std::vector<std::string> names;
  const comm::Channel way = channel(peer, group_.rank());
  while (const auto message = way.try_receive()) {
    const at::Tensor note = message->tensors.at(0).contiguous();
    const auto* words = note.const_data_ptr<int64_t>();
    names.clear();  // the last one counts
    if (words[0] != round_.load(std::memory_order_relaxed))
      continue;
    const std::span missing(words + 1, static_cast<size_t>(note.numel() - 1));
    for (const int i : among)
      if (std::binary_search(missing.begin(), missing.end(), i))
        names.push_back(parameters_[static_cast<size_t>(i)].name);
  }
  return names;
}

std::string StallNotes::heard(std::span<const int> among) const {
  std::string all;
  try {
    for (int peer = 0; peer < group_.size(); ++peer) {
      const auto names =
          peer == group_.rank() ? std::vector<std::string>() : told_by(peer, among);
      if (!names.empty())
        all += text(
            "; rank ",
            group_.members()[static_cast<size_t>(peer)],
            " still waits for the gradients of ",
            list_names(names));
    }
  } catch (const Error&) {
    // What led here is the error that counts.
  }
  return all;
}

}  // namespace trireme::dp
