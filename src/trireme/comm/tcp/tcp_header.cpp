#include "trireme/comm/tcp/tcp_header.h"

#include "trireme/net/bytes.h"

namespace trireme::comm {
namespace {
constexpr size_t kLongestReason = 32768;
}  // namespace

std::string encode(const TcpHeader& header) {
  return net::ByteWriter()
      .u32(header.group)
      .u64(header.number)
      .u32(static_cast<uint32_t>(header.tag))
      .u64(header.bytes)
      .u32(static_cast<uint32_t>(header.origin))
      .flag(header.timed_out)
      .string(std::string_view(header.why).substr(0, kLongestReason))
      .take();
}

TcpHeader decode_tcp_header(const std::string& bytes) {
  net::ByteReader in(bytes, "a word between ranks");
  TcpHeader header;
  header.group = in.u32();
  header.number = in.u64();
  header.tag = static_cast<int32_t>(in.u32());
  header.bytes = in.u64();
  header.origin = static_cast<int32_t>(in.u32());
  header.timed_out = in.flag();
  header.why = in.string(kLongestReason);
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  in.expect_end();
#endif
  return header;
}

}  // namespace trireme::comm
