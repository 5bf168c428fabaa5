#include "trireme/dp/stall_notes.h"

#include <algorithm>
#include <limits>

#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dp/round_stats.h"

namespace trireme::dp {
namespace {

// Looks so many times within a timeout, and speaks after half of it.
constexpr int kLooks = 8;

}  // namespace

StallNotes::StallNotes(
    const comm::Group& group, const std::vector<Parameter>& parameters)
    : group_(group),
      parameters_(parameters),
      arrived_(parameters.size()),
      bucket_(parameters.size()) {}

std::chrono::milliseconds StallNotes::timeout() const {
  return std::min(group_.options().timeout, Deadline::kLongest);
}

std::chrono::milliseconds StallNotes::every() const {
  return std::max(timeout() / kLooks, std::chrono::milliseconds(1));
}

void StallNotes::use(const Layout& layout) {
  for (size_t i = 0; i < bucket_.size(); ++i)
    bucket_[i].store(layout.places[i].bucket, std::memory_order_relaxed);
}

void StallNotes::begin() {
  moved();
  round_.fetch_add(1, std::memory_order_relaxed);
  open_.store(true, std::memory_order_release);
}

void StallNotes::moved() {
  moved_ns_.store(now_ns(), std::memory_order_relaxed);
  if (!told_.load(std::memory_order_relaxed))
    return;
  const std::lock_guard lock(note_mutex_);
  told_ = false;
  group_.set_note("");
}

void StallNotes::end() {
  open_.store(false, std::memory_order_relaxed);
  moved();
}

void StallNotes::tell_if_stalled() {
  if (!open_.load(std::memory_order_acquire))
    return;
  const std::lock_guard lock(note_mutex_);
  const std::chrono::nanoseconds still(
      now_ns() - moved_ns_.load(std::memory_order_relaxed));
  if (still < timeout() / 2)
    return;
  const std::string note = missing(round_.load(std::memory_order_relaxed));
  if (note.empty())
    return;  // all is here: this rank waits for others
  // Again and again while it lasts: a rank has one note, and several reducers.
  told_ = true;
  group_.set_note(note);
}

std::string StallNotes::missing(int64_t round) const {
  int next = std::numeric_limits<int>::max();
  std::vector<std::string> names;
  for (size_t i = 0; i < arrived_.size(); ++i) {
    const int bucket = bucket_[i].load(std::memory_order_relaxed);
    if (bucket > next || arrived_[i].load(std::memory_order_relaxed) == round)
      continue;
    if (bucket < next)
      names.clear();
    next = bucket;
    names.push_back(parameters_[i].name);
  }
  return names.empty() ? ""
                       : text(
                             "its backward has not brought the gradients of ",
                             list_names(names),
                             " for bucket ",
                             next);
}

}  // namespace trireme::dp
