#include "trireme/rpc/protocol_messages.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

constexpr Time kMessageTime{std::chrono::hours(1)};

TEST(ProtocolMessages, ARequestComesBackAsItWas) {
  std::string body = write_request_head(
      {.call = 77,
       .timeout = milliseconds(250),
       .creates = {.creator = 3, .number = 9}});
  append_marks(
      {{.id = {1, 2}, .owner = 1, .passage = Passage::Granted, .number = 5}}, body);
  body += "rest";
  MessageReader reader(body);
  const RequestHead head = reader.request_head();
  EXPECT_EQ(head.call, 77u);
  EXPECT_EQ(head.timeout, milliseconds(250));
  EXPECT_EQ(head.creates, (ObjectId{3, 9}));
  const auto marks = reader.marks(4);
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].id, (ObjectId{1, 2}));
  EXPECT_EQ(marks[0].owner, 1);
  EXPECT_EQ(marks[0].passage, Passage::Granted);
  EXPECT_EQ(marks[0].number, 5u);
  EXPECT_EQ(reader.take_rest(), "rest");
}

TEST(ProtocolMessages, AResponseComesBackAsItWas) {
  std::string body = write_response_head({.call = 7, .status = Status::Refused});
  append_marks({}, body);
  MessageReader reader(body);
  const ResponseHead head = reader.response_head();
  EXPECT_EQ(head.call, 7u);
  EXPECT_EQ(head.status, Status::Refused);
  EXPECT_TRUE(reader.marks(1).empty());
}

TEST(ProtocolMessages, ADeadlineTravelsAsWhatIsLeftOfIt) {
  EXPECT_EQ(time_left(kMessageTime + milliseconds(30), kMessageTime), milliseconds(30));
  EXPECT_EQ(
      time_left(kMessageTime + std::chrono::microseconds(1), kMessageTime),
      milliseconds(1));
  EXPECT_EQ(time_left(kMessageTime - milliseconds(1), kMessageTime), milliseconds(1));
  EXPECT_EQ(
      deadline_after(milliseconds(30), kMessageTime), kMessageTime + milliseconds(30));
  EXPECT_EQ(
      deadline_after(time_left(Time::max(), kMessageTime), kMessageTime), Time::max());
}

TEST(ProtocolMessages, ANoteComesBackAsItWas) {
  for (const Note note :
       {Note::Add,
        Note::Added,
        Note::Refused,
        Note::Accept,
        Note::Remove,
        Note::Created}) {
    const Posting back =
        read_note(write_note({.to = 1, .note = note, .id = {2, 3}, .number = 4}));
    EXPECT_EQ(back.note, note);
    EXPECT_EQ(back.id, (ObjectId{2, 3}));
    EXPECT_EQ(back.number, 4u);
  }
  EXPECT_EQ(read_call(write_call(99)), 99u);
}

TEST(ProtocolMessages, WhatNobodyWouldWriteIsRefused) {
  const auto refused = [](std::string body) {
    MessageReader reader(body);
    reader.response_head();
    reader.marks(4);
  };
  std::string body = write_response_head({.call = 7});
  append_marks({{.id = {1, 2}, .owner = 1}}, body);
  refused(body);
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_THROW(refused(body.substr(0, size)), InvalidArgument) << size;
  std::string late = body;
  late[8] = 5;  // Late is never a callee's answer
  EXPECT_THROW(refused(late), InvalidArgument);
  std::string owner = body;
  owner[9 + 4 + 12] = 4;
  EXPECT_THROW(refused(owner), InvalidArgument);
  std::string passage = body;
  passage[9 + 4 + 16] = 4;
  EXPECT_THROW(refused(passage), InvalidArgument);
  EXPECT_THROW(
      read_note({.kind = 15, .body = std::string(20, '\0'), .parts = {}}),
      InvalidArgument);
  EXPECT_THROW(
      read_note({.kind = 22, .body = std::string(20, '\0'), .parts = {}}),
      InvalidArgument);
  EXPECT_THROW(
      read_note({.kind = 16, .body = std::string(21, '\0'), .parts = {}}),
      InvalidArgument);
  EXPECT_THROW(read_call("123456789"), InvalidArgument);
}

}  // namespace
}  // namespace trireme::rpc
