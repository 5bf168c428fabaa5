#include "trireme/rpc/call_payload.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/rpc/protocol_messages.h"

namespace trireme::rpc {

namespace {

constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kLongestNote = 4096;
// Below what a link takes for a message's body, which has more than this inside.
constexpr std::size_t kMostBesideTensors = std::size_t{1000} << 20;
constexpr std::size_t kLongestFault = std::size_t{1} << 20;
constexpr const char* kCall = "a worker's call";
constexpr const char* kResult = "a worker's answer";

CallHead take_head(net::ByteReader& bytes) {
  CallHead head;
  head.function = bytes.string(kLongestName);
  head.signature = bytes.u64();
  head.trace = bytes.u64();
  head.span = bytes.u64();
  head.depth = bytes.u8();
  head.note = bytes.string(kLongestNote);
  return head;
}

// Behind the values stand what describes the tensors.
void append_values(net::ByteWriter& bytes, Values values, Payload& payload) {
  bytes.string(values.bytes);
  pack_tensors(values.tensors, bytes, payload.parts);
  payload.references = std::move(values.references);
}

Values take_values(
    net::ByteReader& bytes, Payload& payload, const ValueLimits& limits) {
  if (payload.references.size() > limits.references)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        limits.references,
        " references in one call or result, got ",
        payload.references.size(),
        "; send them in pieces, or raise ValueLimits::references"));
  Values values;
  values.bytes = bytes.string(bytes.left());
  values.tensors = unpack_tensors(bytes, std::move(payload.parts), limits);
  bytes.expect_end();
  values.references = std::move(payload.references);
  return values;
}

}  // namespace

void expect_fits(const Payload& payload, std::uint64_t most, const std::string& what) {
  if (const std::uint64_t bytes = bytes_of(payload); bytes > most)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        most,
        " bytes for ",
        what,
        ", got ",
        bytes,
        "; send it in pieces, or raise message_bytes"));
  if (const std::size_t bytes = bytes_beside_tensors(payload);
      bytes > kMostBesideTensors)
    throw InvalidArgument(text(
        "[rpc] expected at most ",
        kMostBesideTensors,
        " bytes beside the tensors of ",
        what,
        ", got ",
        bytes,
        "; send long lists as tensors"));
}

Payload pack_call(const CallHead& head, Values arguments) {
  net::ByteWriter bytes;
  bytes.string(head.function)
      .u64(head.signature)
      .u64(head.trace)
      .u64(head.span)
      .u8(head.depth)
      .string(head.note);
  Payload payload;
  append_values(bytes, std::move(arguments), payload);
  payload.bytes = bytes.take();
  return payload;
}

Payload pack_values(Values values) {
  net::ByteWriter bytes;
  Payload payload;
  append_values(bytes, std::move(values), payload);
  payload.bytes = bytes.take();
  return payload;
}

Payload pack_fault(const Fault& fault) {
  Payload payload;
  payload.bytes = net::ByteWriter()
                      .string(fault.type.substr(0, kLongestName))
                      .string(fault.text.substr(0, kLongestFault))
                      .take();
  return payload;
}

CallHead unpack_call_head(const Payload& payload) {
  net::ByteReader bytes(payload.bytes, kCall);
  return take_head(bytes);
}

Values unpack_arguments(Payload payload, const ValueLimits& limits) {
  net::ByteReader bytes(payload.bytes, kCall);
  take_head(bytes);
  return take_values(bytes, payload, limits);
}

Values unpack_values(Payload payload, const ValueLimits& limits) {
  net::ByteReader bytes(payload.bytes, kResult);
  return take_values(bytes, payload, limits);
}

Fault unpack_fault(const Payload& payload) {
  net::ByteReader bytes(payload.bytes, kResult);
  Fault fault;
  fault.type = bytes.string(kLongestName);
  fault.text = bytes.string(kLongestFault);
  bytes.expect_end();
  return fault;
}

}  // namespace trireme::rpc
