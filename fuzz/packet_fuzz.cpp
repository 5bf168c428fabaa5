// Any bytes as a message between workers: refused, or a packet that makes a message of
// the same length and says the same when it is read again.
#include <algorithm>
#include <cstring>
#include <string>

#include "trireme/core/buffer_pool.h"
#include "trireme/core/error.h"
#include "trireme/rpc/packet_message.h"

namespace {

using trireme::rpc::Packet;

constexpr std::size_t kHeaderBytes = 12;

trireme::net::InMessage message_of(
    trireme::BufferPool& pool, const std::string& bytes) {
  trireme::net::InMessage message;
  message.envelope.header = bytes.substr(0, kHeaderBytes);
  const std::string body = bytes.substr(message.envelope.header.size());
  message.buffer = pool.take(body.size());
  message.body = message.buffer.bytes();
  std::memcpy(message.body.data(), body.data(), body.size());
  return message;
}

std::string bytes_of(const trireme::net::OutMessage& message) {
  std::string bytes = message.envelope.header;
  for (const auto& span : message.body)
    bytes.append(reinterpret_cast<const char*>(span.data()), span.size());
  return bytes;
}

bool same(const Packet& one, const Packet& other) {
  return one.head == other.head && one.parts.size() == other.parts.size() &&
         std::equal(
             one.parts.begin(),
             one.parts.end(),
             other.parts.begin(),
             [](const auto& left, const auto& right) {
               return std::equal(
                   left.bytes.begin(),
                   left.bytes.end(),
                   right.bytes.begin(),
                   right.bytes.end());
             });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trireme::BufferPool pool;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Packet packet = trireme::rpc::to_packet(message_of(pool, bytes));
    const std::string again = bytes_of(trireme::rpc::to_message(packet));
    if (again.size() != bytes.size() ||
        !same(packet, trireme::rpc::to_packet(message_of(pool, again))))
      __builtin_trap();
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
