// Requests and replies of the store as they travel.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/net/message.h"
#include "trireme/net/store_request.h"

namespace trireme::net {

/// A request or reply on its way: `type` and `header` go into an envelope, and the
/// blobs, one behind the other, are the body. Blobs are shared, not copied.
struct StoreMessage {
  std::uint16_t type = 0;
  std::string header;
  std::vector<StoreValue> blobs;
};

StoreMessage encode(const StoreRequest& request);
StoreMessage encode(const StoreReply& reply);

/// The other way. InvalidArgument for bytes that are no request or reply; nothing in
/// them is trusted, and what they say of sizes is checked before memory is taken.
StoreRequest decode_store_request(
    std::uint16_t type, std::string_view header, std::string_view body);
StoreReply decode_store_reply(
    std::uint16_t type, std::string_view header, std::string_view body);

/// A message for a node: holds the blobs until they are sent.
OutMessage store_out_message(
    StoreMessage message, std::uint64_t request, std::chrono::milliseconds timeout);

/// The limits of the nodes on both sides. No message of the store counts as small, so
/// that none overtakes another: a watcher must not hear of an old value last.
Limits store_node_limits();

}  // namespace trireme::net
