#include "trireme/net/hello.h"

#include <sys/random.h>

#include "trireme/core/error.h"
#include "trireme/net/bytes.h"

namespace trireme::net {
namespace {
constexpr std::size_t kLongestName = 256;
}  // namespace

SessionId random_session_id() {
  SessionId id{};
  // Up to 256 bytes come whole, once the system has started.
  TRIREME_ASSERT(::getrandom(id.data(), sizeof(id), 0) == sizeof(id));
  return id;
}

std::string encode(const Hello& hello) {
  return ByteWriter()
      .string(hello.job)
      .u64(hello.incarnation)
      .string(hello.from)
      .string(hello.to)
      .u64(hello.session[0])
      .u64(hello.session[1])
      .flag(hello.resumed)
      .u64(hello.received)
      .u64(hello.released_small)
      .u64(hello.released_large)
      .u64(hello.limits.header_bytes)
      .u64(hello.limits.body_bytes)
      .u64(hello.limits.small_bytes)
      .u64(hello.limits.small_window)
      .u64(hello.limits.large_window)
      .take();
}

Hello decode_hello(const std::string& bytes) {
  ByteReader in(bytes, "a greeting");
  Hello hello;
  hello.job = in.string(kLongestName);
  hello.incarnation = in.u64();
  hello.from = in.string(kLongestName);
  hello.to = in.string(kLongestName);
  hello.session = {in.u64(), in.u64()};
  hello.resumed = in.flag();
  hello.received = in.u64();
  hello.released_small = in.u64();
  hello.released_large = in.u64();
  hello.limits.header_bytes = in.u64();
  hello.limits.body_bytes = in.u64();
  hello.limits.small_bytes = in.u64();
  hello.limits.small_window = in.u64();
  hello.limits.large_window = in.u64();
  in.expect_end();
#ifndef TRIREME_PLANTED_BUG  // the fuzzer must find its absence
  // What is small goes in one frame.
  if (hello.limits.small_bytes > (std::size_t{256} << 10))
    throw InvalidArgument(text(
        "[net] expected small messages of at most 256 KiB, got ",
        hello.limits.small_bytes,
        " bytes; lower Limits::small_bytes"));
#endif
  return hello;
}

}  // namespace trireme::net
