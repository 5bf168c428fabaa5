// Any text as a flight record: it is refused, or what it says is in range and the
// report about it can be printed.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "trireme/comm/flight_file.h"
#include "trireme/comm/flight_report.h"
#include "trireme/core/error.h"

namespace {

void must_be_in_range(const trireme::comm::FlightFile& record) {
  if (record.rank < 0 || record.size < 1 || record.rank >= record.size)
    std::abort();
  for (const trireme::comm::FlightCall& call : record.calls)
    if (call.sequence < 1 || call.bytes < 0 || call.started_ns < 0 || call.ended_ns < 0)
      std::abort();
}

// Most texts are no JSON at all: a frame lets the fuzzer work on the numbers.
std::string framed(const std::string& inside) {
  return R"({"format":"trireme flight 1","rank":0,"size":2,"written_by":0,"reason":"r",)"
         R"("calls":[{"ticket":1,"kind":"send","state":"done","group":0,)" +
         inside + "}]}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::comm;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& json : {text, framed(text)}) {
    try {
      const FlightFile record = parse_flight(json, "fuzz");
      must_be_in_range(record);
      to_text(report_flight(std::span(&record, 1)));
    } catch (const trireme::InvalidArgument&) {
    }
  }
  return 0;
}
