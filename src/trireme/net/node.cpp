#include "trireme/net/node.h"

#include "trireme/core/error.h"
#include "trireme/net/node_core.h"
#include "trireme/net/session.h"

namespace trireme::net {

const std::string& Peer::name() const {
  return session_->name();
}

void Peer::send(OutMessage message) const {
  session_->send(std::move(message));
}

void Peer::close() const {
  session_->close();
}

void Peer::drop() const {
  session_->drop();
}

bool Peer::ended() const {
  return session_->ended();
}

std::string Peer::why() const {
  return session_->why();
}

std::size_t Peer::queued_bytes() const {
  return session_->queued_bytes();
}

void Receiver::joined(const Peer&) {}

std::span<std::byte> Receiver::place(const Peer&, const Envelope&, std::size_t) {
  return {};
}

void Receiver::lost(const Peer&, Ending, const std::string&) {}

Node::Node(NodeOptions options, Receiver& receiver) {
  if (options.name.empty() || options.name.size() > 256)
    throw InvalidArgument(text(
        "[net] expected a node's name of 1 to 256 bytes, got ",
        options.name.size(),
        "; set NodeOptions::name"));
  if (options.heartbeat < std::chrono::milliseconds(20))
    throw InvalidArgument(text(
        "[net] expected a heartbeat of at least 20 ms, got ",
        options.heartbeat.count(),
        "; set NodeOptions::heartbeat"));
  core_ = std::make_shared<NodeCore>(std::move(options), receiver);
  core_->listen();
}

Node::~Node() {
  close();
}

std::vector<Address> Node::addresses() const {
  return core_->addresses();
}

Peer Node::connect(
    const std::string& name,
    const Address& address,
    Deadline deadline,
    const std::function<void()>& check) {
  return core_->connect(name, address, deadline, check);
}

void Node::close() {
  core_->close();
}

void Node::set_looks(bool looks) {
  core_->reactor().set_looks(looks);
}

std::uint64_t Node::turned_away() const {
  return core_->turned_away();
}

}  // namespace trireme::net
