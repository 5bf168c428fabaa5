#include "trireme/comm/work.h"

#include "trireme/comm/work_state.h"
#include "trireme/core/log.h"

namespace trireme::comm {

void Work::wait() const {
  if (state_)
    state_->wait();
}

bool Work::test() const {
  return !state_ || state_->finished();
}

Work::State::~State() {
  if (!error_ || seen_)
    return;
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    TRIREME_LOG(error, "comm")
        << "nobody waited for an operation that failed: " << error.what();
  } catch (...) {
    TRIREME_LOG(error, "comm") << "nobody waited for an operation that failed";
  }
}

void Work::State::finish(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    finished_ = true;
    error_ = std::move(error);
  }
  done_.notify_all();
}

void Work::State::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return finished_; });
  if (error_) {
    seen_ = true;
    std::rethrow_exception(error_);
  }
}

bool Work::State::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

}  // namespace trireme::comm
