// When which call ran where, for the trace viewer.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/comm/clock_offset.h"
#include "trireme/rpc/worker.h"

namespace trireme::rpc {

/// A call as one of its two workers has seen it.
struct CallSpan {
  /// Whether this worker has called, or was called.
  enum class Side : std::uint8_t { Caller, Callee };
  Side side = Side::Caller;
  std::string function;
  /// The other worker.
  WorkerId other = 0;
  /// Of all calls that one call has led to, and of the call that this one was made in;
  /// both sides give the same.
  std::uint64_t trace = 0;
  /// Tells calls of one worker apart: the caller's number.
  std::uint64_t call = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  /// "value", "failed", "late" …
  std::string end;
};

/// Keeps the last calls of a worker; of no use as long as it may keep none.
class CallTrace {
 public:
  /// How many to keep; the oldest go first. 0 turns it off.
  void keep(std::size_t most) { most_.store(most); }
  bool on() const { return most_.load(std::memory_order_relaxed) > 0; }
  void add(CallSpan span);
  /// All that are kept, oldest first.
  std::vector<CallSpan> spans() const;

 private:
  std::atomic<std::size_t> most_{0};
  mutable std::mutex mutex_;
  std::vector<CallSpan> spans_;
  std::size_t next_ = 0;
};

/// Calls as a Chrome trace for Perfetto: a process a worker with tracks for what it has
/// called and for what it has run, as many as there were calls at once, and an arrow
/// from the one to the other. The arrows show when the traceEvents of both workers
/// stand in one file, perhaps with those of pipelines and data parallelism, whose
/// processes are ranks, too:
///
///     jq -s '{traceEvents: map(.traceEvents) | add}' trace-*.json > all.json
std::string to_chrome_trace(
    const std::vector<CallSpan>& spans,
    const std::vector<WorkerInfo>& workers,
    WorkerId me,
    const comm::ClockOffset& clock = {});

}  // namespace trireme::rpc
