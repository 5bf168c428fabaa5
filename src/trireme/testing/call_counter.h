// How often torch has called something.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <ATen/record_function.h>

namespace trireme::testing {

/// Counts the calls of torch's operations or nodes whose name holds `part`, on all
/// threads, while it lives. One at a time; no other thread may be in torch when it
/// comes or goes.
///
///     const CallCounter products(at::RecordScope::FUNCTION, "aten::mm");
class CallCounter {
 public:
  CallCounter(at::RecordScope scope, const std::string& part) {
    part_ = part;
    count_ = 0;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(note).scopes({scope}));
  }
  ~CallCounter() { at::removeCallback(handle_); }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  int64_t count() const { return count_; }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
    if (std::string(function.name()).find(part_) != std::string::npos)
      ++count_;
    return nullptr;
  }
  // torch takes a plain function, which knows no object.
  inline static std::string part_;
  inline static std::atomic<int64_t> count_ = 0;
  at::CallbackHandle handle_ = 0;
};

}  // namespace trireme::testing
