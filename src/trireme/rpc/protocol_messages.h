// How the protocol's messages look as bytes.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/net/bytes.h"
#include "trireme/rpc/protocol.h"

namespace trireme::rpc {

/// What a message is, beside the notes on references, whose numbers are their own.
enum class MessageKind : std::uint8_t { Request = 1, Response, Cancel };

/// Behind the head come the marks of the references, and then the payload's bytes.
struct RequestHead {
  std::uint64_t call = 0;
  std::chrono::milliseconds timeout{0};
  ObjectId creates;  // number 0 if it makes no value
};
struct ResponseHead {
  std::uint64_t call = 0;
  Status status = Status::Value;
};

/// What is left until a deadline, at least a millisecond; the longest for none.
std::chrono::milliseconds time_left(Time deadline, Time now);
/// The other way round.
Time deadline_after(std::chrono::milliseconds timeout, Time now);

std::string write_request_head(const RequestHead& head);
std::string write_response_head(const ResponseHead& head);
void append_marks(const std::vector<TravelMark>& marks, std::string& body);
/// How many bytes so many take.
std::size_t marks_bytes(std::size_t count);
/// What a payload takes without its tensors, nearly.
std::size_t bytes_beside_tensors(const Payload& payload);
std::string write_call(std::uint64_t call);
std::uint64_t read_call(const std::string& body);
Message write_note(const Posting& note);
/// InvalidArgument for what is no note. Its `to` is not set.
Posting read_note(const Message& message);

/// Reads a request or a response; InvalidArgument for what nobody would write.
class MessageReader {
 public:
  explicit MessageReader(std::string& body)
      : body_(body), bytes_(body, "a worker's message") {}
  RequestHead request_head();
  ResponseHead response_head();
  std::vector<TravelMark> marks(std::size_t world_size);
  /// What is behind all that was read, as the body's own memory: the end of reading.
  std::string take_rest();

 private:
  std::string& body_;
  net::ByteReader bytes_;
};

}  // namespace trireme::rpc
