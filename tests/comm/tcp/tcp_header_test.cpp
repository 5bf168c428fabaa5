#include "trireme/comm/tcp/tcp_header.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

TEST(TcpHeader, ComesBackAsItWas) {
  const TcpHeader header{
      .group = 7,
      .number = 8,
      .tag = -3,
      .bytes = 9,
      .origin = 2,
      .timed_out = true,
      .why = "it ended"};
  const TcpHeader back = decode_tcp_header(encode(header));
  EXPECT_EQ(back.group, 7u);
  EXPECT_EQ(back.number, 8u);
  EXPECT_EQ(back.tag, -3);
  EXPECT_EQ(back.bytes, 9u);
  EXPECT_EQ(back.origin, 2);
  EXPECT_TRUE(back.timed_out);
  EXPECT_EQ(back.why, "it ended");
}

TEST(TcpHeader, WhatIsCutShortIsRefused) {
  const std::string bytes = encode(TcpHeader{.why = "x"});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_tcp_header(bytes.substr(0, size)), InvalidArgument);
  EXPECT_THROW(decode_tcp_header(bytes + "y"), InvalidArgument);
  EXPECT_LT(encode(TcpHeader{.why = std::string(100'000, 'w')}).size(), 40'000u);
}

}  // namespace
}  // namespace trireme::comm
