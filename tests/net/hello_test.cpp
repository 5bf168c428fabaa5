#include "trireme/net/hello.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::net {
namespace {

Hello example() {
  return {
      .job = "demo",
      .incarnation = 3,
      .from = "a",
      .to = "b",
      .session = {1, 2},
      .resumed = true,
      .received = 10,
      .released_small = 20,
      .released_large = 30,
      .limits = {
          .header_bytes = 1,
          .body_bytes = 2,
          .small_bytes = 3,
          .small_window = 4,
          .large_window = 5}};
}

TEST(Hello, ComesBackAsItWas) {
  const Hello back = decode_hello(encode(example()));
  EXPECT_EQ(back.job, "demo");
  EXPECT_EQ(back.incarnation, 3u);
  EXPECT_EQ(back.from, "a");
  EXPECT_EQ(back.to, "b");
  EXPECT_EQ(back.session, (SessionId{1, 2}));
  EXPECT_TRUE(back.resumed);
  EXPECT_EQ(back.received, 10u);
  EXPECT_EQ(back.released_small, 20u);
  EXPECT_EQ(back.released_large, 30u);
  EXPECT_EQ(back.limits.header_bytes, 1u);
  EXPECT_EQ(back.limits.large_window, 5u);
}

TEST(Hello, WhatIsCutShortOrTooLongIsRefused) {
  const std::string bytes = encode(example());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_hello(bytes.substr(0, size)), InvalidArgument) << size;
  EXPECT_THROW(decode_hello(bytes + "x"), InvalidArgument);
  Hello hello = example();
  hello.from = std::string(300, 'n');
  EXPECT_THROW(decode_hello(encode(hello)), InvalidArgument);
  hello = example();
  hello.limits.small_bytes = 1 << 20;
  EXPECT_THROW(decode_hello(encode(hello)), InvalidArgument);
}

TEST(Hello, SessionsDiffer) {
  EXPECT_NE(random_session_id(), random_session_id());
}

}  // namespace
}  // namespace trireme::net
