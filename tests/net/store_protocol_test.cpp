#include "trireme/net/store_protocol.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.h"
#include "trireme/net/frame.h"
#include "trireme/net/store.h"

namespace trireme::net {
namespace {

std::string body_of(const StoreMessage& message) {
  std::string body;
  for (const StoreValue& blob : message.blobs)
    body += *blob;
  return body;
}

std::vector<StoreRequest> all_requests() {
  const StoreValue value = store_value(std::string("v\0w", 3));
  return {
      {.op = StoreOp::Set, .key = "k", .value = value},
      {.op = StoreOp::Set, .key = "k", .value = store_value("")},
      {.op = StoreOp::Get, .key = std::string("\0", 1)},
      {.op = StoreOp::TryGet, .key = "k"},
      {.op = StoreOp::Add, .key = "k", .delta = -5},
      {.op = StoreOp::CompareSet, .key = "k", .value = value},
      {.op = StoreOp::CompareSet,
       .key = "k",
       .value = value,
       .expected = store_value("")},
      {.op = StoreOp::Wait, .keys = {"a", "bc", "d"}},
      {.op = StoreOp::Wait},
      {.op = StoreOp::Erase, .key = "k"},
      {.op = StoreOp::Keys, .key = "p/"},
      {.op = StoreOp::Keys, .key = "p/", .keys = {"p/7"}},
      {.op = StoreOp::Watch, .key = ""},
      {.op = StoreOp::Unwatch, .target = ~std::uint64_t{0}},
      {.op = StoreOp::Cancel, .target = 12}};
}

std::vector<StoreReply> all_replies() {
  const StoreValue value = store_value("value");
  return {
      {},
      {.kind = StoreAnswer::Value},
      {.kind = StoreAnswer::Value, .yes = true, .value = value},
      {.kind = StoreAnswer::Number, .number = -1},
      {.kind = StoreAnswer::Erased, .yes = true},
      {.kind = StoreAnswer::Erased, .text = "key"},
      {.kind = StoreAnswer::Names, .yes = true, .names = {"a", "b"}},
      {.kind = StoreAnswer::Missing, .names = {"x"}},
      {.kind = StoreAnswer::Refused, .text = "why"},
      {.kind = StoreAnswer::Changed, .value = value, .text = "key"},
      {.kind = StoreAnswer::Lost}};
}

bool same_value(const StoreValue& a, const StoreValue& b) {
  return a && b ? *a == *b : a == b;
}

TEST(StoreProtocol, RequestsComeBackAsTheyWere) {
  for (const StoreRequest& request : all_requests()) {
    const StoreMessage message = encode(request);
    const StoreRequest back =
        decode_store_request(message.type, message.header, body_of(message));
    EXPECT_EQ(back.op, request.op);
    EXPECT_EQ(back.key, request.key);
    EXPECT_EQ(back.keys, request.keys);
    EXPECT_EQ(back.delta, request.delta);
    EXPECT_EQ(back.target, request.target);
    EXPECT_TRUE(same_value(back.value, request.value));
    EXPECT_TRUE(same_value(back.expected, request.expected));
  }
}

TEST(StoreProtocol, RepliesComeBackAsTheyWere) {
  for (const StoreReply& reply : all_replies()) {
    const StoreMessage message = encode(reply);
    const StoreReply back =
        decode_store_reply(message.type, message.header, body_of(message));
    EXPECT_EQ(back.kind, reply.kind);
    EXPECT_EQ(back.yes, reply.yes);
    EXPECT_EQ(back.number, reply.number);
    EXPECT_EQ(back.names, reply.names);
    EXPECT_EQ(back.text, reply.text);
    EXPECT_TRUE(same_value(back.value, reply.value));
  }
}

template <class Decode>
void refuses_all_but_the_whole(const StoreMessage& message, const Decode& decode) {
  const std::string& header = message.header;
  const std::string body = body_of(message);
  for (std::size_t size = 0; size < header.size(); ++size)
    EXPECT_THROW(decode(message.type, header.substr(0, size), body), InvalidArgument);
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_THROW(decode(message.type, header, body.substr(0, size)), InvalidArgument);
  EXPECT_THROW(decode(message.type, header + "x", body), InvalidArgument);
  EXPECT_THROW(decode(message.type, header, body + "x"), InvalidArgument);
}

TEST(StoreProtocol, CutOrLengthenedMessagesAreRefused) {
  for (const StoreRequest& request : all_requests())
    refuses_all_but_the_whole(encode(request), decode_store_request);
  for (const StoreReply& reply : all_replies())
    refuses_all_but_the_whole(encode(reply), decode_store_reply);
}

TEST(StoreProtocol, UnknownNumbersAreRefused) {
  for (const int type : {0, 12, 128, 0xffff})
    EXPECT_THROW(decode_store_request(type, "\1", ""), InvalidArgument);
  for (const int type : {0, 1, 128, 138})
    EXPECT_THROW(decode_store_reply(type, "\1", ""), InvalidArgument);
  EXPECT_EQ(
      refusal_of([] { decode_store_request(3, "\2", ""); }),
      "[net] expected a request to the store of version 1, got version 2; use the same "
      "version of Trireme everywhere");
  EXPECT_EQ(
      refusal_of([] { decode_store_request(99, "\1", ""); }),
      "[net] expected the number of an operation of the store, got 99; use the same "
      "version of Trireme everywhere");
}

TEST(StoreProtocol, WhatIsAboveTheLimitsIsRefused) {
  const std::string large(kStoreValueBytes + 1, 'v');
  StoreMessage message =
      encode({.op = StoreOp::Set, .key = "k", .value = store_value(large)});
  EXPECT_EQ(
      refusal_of([&] { decode_store_request(message.type, message.header, large); }),
      "[net] expected a part of at most 1048576 bytes in the body of a request to the "
      "store, got 1048577; the bytes are damaged, or of another version");
  message = encode({.op = StoreOp::Get, .key = std::string(kStoreKeyBytes + 1, 'k')});
  EXPECT_THROW(decode_store_request(message.type, message.header, ""), InvalidArgument);
}

TEST(StoreProtocol, ValuesAreNotCopiedOnTheWayOut) {
  const StoreValue value = store_value("value");
  OutMessage out = store_out_message(
      encode({.op = StoreOp::Set, .key = "k", .value = value}),
      7,
      std::chrono::milliseconds(5));
  EXPECT_EQ(out.envelope.request, 7u);
  EXPECT_EQ(out.envelope.timeout.count(), 5);
  ASSERT_EQ(out.body.size(), 1u);
  EXPECT_EQ(out.body[0].data(), std::as_bytes(std::span(*value)).data());
  EXPECT_EQ(value.use_count(), 2);
}

TEST(StoreProtocol, AllMessagesTravelInOneLane) {
  const Limits limits = store_node_limits();
  EXPECT_FALSE(is_small(encode(StoreReply{}).header.size(), 0, limits));
  EXPECT_FALSE(
      is_small(encode(StoreReply{.kind = StoreAnswer::Lost}).header.size(), 0, limits));
  const StoreValue largest = store_value(std::string(kStoreValueBytes, 'v'));
  const StoreMessage message = encode(
      {.op = StoreOp::CompareSet,
       .key = std::string(kStoreKeyBytes, 'k'),
       .value = largest,
       .expected = largest});
  EXPECT_LE(body_of(message).size(), limits.body_bytes);
  EXPECT_LE(message.header.size(), limits.header_bytes);
  EXPECT_GE(limits.large_window, limits.body_bytes);
}

}  // namespace
}  // namespace trireme::net
