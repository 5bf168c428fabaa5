#include "trireme/comm/doorbell.h"

#include <algorithm>
#include <thread>

namespace trireme::comm {
namespace {

// What is no event, such as a peer that died, is found by looking.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kLongestPause{1};

}  // namespace

EventWait::~EventWait() {
  for (Doorbell* bell : bells_)
    if (listening_)
      bell->stop_listening();
}

void EventWait::add(Doorbell* bell) {
  if (bell == nullptr)
    must_ask_ = true;
  else if (std::find(bells_.begin(), bells_.end(), bell) == bells_.end())
    bells_.push_back(bell);
}

void EventWait::wait() {
  // Nobody rings for who does not listen, so the first look may have been too early.
  if (!listening_) {
    for (Doorbell* bell : bells_)
      bell->listen();
    listening_ = true;
  } else if (bells_.size() == 1 && !must_ask_) {
    bells_[0]->await_ring(seen_[0], kLook);
  } else {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::microseconds>(
        pause_ * 2 + std::chrono::microseconds(1), kLongestPause);
  }
  // Before the next look: what happens after it counts.
  seen_.clear();
  for (const Doorbell* bell : bells_)
    seen_.push_back(bell->rings());
}

}  // namespace trireme::comm
