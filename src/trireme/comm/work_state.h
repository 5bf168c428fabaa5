// The shared end of a Work: private to comm.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>

#include "trireme/comm/work.h"

namespace trireme::comm {

class Work::State {
 public:
  ~State();
  /// Ends the operation; null means well.
  void finish(std::exception_ptr error);
  void wait();
  bool finished() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  bool seen_ = false;
  std::exception_ptr error_;
};

}  // namespace trireme::comm
