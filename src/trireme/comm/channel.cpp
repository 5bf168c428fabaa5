#include "trireme/comm/channel.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "trireme/comm/doorbell.h"
#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"

namespace trireme::comm {

struct Channel::Impl {
  Edge edge;
  std::chrono::milliseconds timeout;
  std::unique_ptr<SendPort> sender;
  std::unique_ptr<ReceivePort> receiver;

  Deadline deadline(std::chrono::milliseconds given) const {
    return Deadline::after(given.count() > 0 ? given : timeout);
  }
};

Channel::Channel(const Group& group, const Edge& edge, const ChannelOptions& options)
    : impl_(std::make_shared<Impl>()) {
  const int size = group.size(), rank = group.rank();
  if (edge.from < 0 || edge.from >= size || edge.to < 0 || edge.to >= size)
    throw InvalidArgument(text(
        "[comm] expected an edge between ranks 0 to ",
        size - 1,
        ", got one from ",
        edge.from,
        " to ",
        edge.to,
        "; correct the edge"));
  if (rank != edge.from && rank != edge.to)
    throw InvalidArgument(text(
        "[comm] expected rank ",
        edge.from,
        " or ",
        edge.to,
        " to open this channel, got rank ",
        rank,
        "; open only the channels that end here"));
  impl_->edge = edge;
  impl_->timeout = group.options().timeout;
  const std::shared_ptr<Engine> engine = group.share_engine();
  if (rank == edge.from)
    impl_->sender = engine->open_send(edge.to, edge.tag, options);
  if (rank == edge.to)
    impl_->receiver = engine->open_receive(edge.from, edge.tag);
}

const Edge& Channel::edge() const {
  return impl_->edge;
}

SendPort& Channel::sender() const {
  if (!impl_->sender)
    throw InvalidArgument(text(
        "[comm] expected rank ",
        impl_->edge.from,
        " to send on this channel, got its receiver; open one the other way"));
  return *impl_->sender;
}

ReceivePort& Channel::receiver() const {
  if (!impl_->receiver)
    throw InvalidArgument(text(
        "[comm] expected rank ",
        impl_->edge.to,
        " to receive from this channel, got its sender; open one the other way"));
  return *impl_->receiver;
}

void Channel::send(const Message& message, std::chrono::milliseconds timeout) const {
  sender().send(message, impl_->deadline(timeout));
}

bool Channel::try_send(const Message& message) const {
  return sender().try_send(message);
}

Message Channel::receive(std::chrono::milliseconds timeout) const {
  return receiver().receive(impl_->deadline(timeout));
}

std::optional<Message> Channel::try_receive() const {
  return receiver().try_receive();
}

bool Channel::closed() const {
  return receiver().closed();
}

size_t wait_any(
    const std::vector<Channel>& receives, std::chrono::milliseconds timeout) {
  if (receives.empty())
    throw InvalidArgument(
        "[comm] wait_any: expected at least one channel, got none; there is nothing to "
        "wait for");
  auto longest = timeout;
  EventWait event;
  for (const Channel& channel : receives) {
    event.add(channel.receiver().doorbell());
    if (timeout.count() <= 0)
      longest = std::max(longest, channel.impl_->timeout);
  }
  const Deadline deadline = Deadline::after(longest);
  WaitBudget budget(deadline);
  for (;;) {
    for (size_t i = 0; i < receives.size(); ++i)
      if (receives[i].receiver().ready() || receives[i].receiver().closed())
        return i;
    if (!budget.charge())
      throw TimeoutError(text(
          "[comm] expected a message on one of ",
          receives.size(),
          " channels within ",
          deadline.allowed().count(),
          " ms, but none came, first of all from rank ",
          receives[0].edge().from,
          "; look at those ranks, or allow more time"));
    event.wait();
  }
}

namespace {

/// Carries out what can go now, and leaves the rest in `waiting`. Once a channel has to
/// wait, so does everything behind it on the same channel.
template <class IdOf, class Try>
void go_through(std::vector<size_t>& waiting, const IdOf& id_of, const Try& attempt) {
  std::set<const void*> blocked;
  std::erase_if(waiting, [&](size_t i) {
    const bool went = !blocked.contains(id_of(i)) && attempt(i);
    if (!went)
      blocked.insert(id_of(i));
    return went;
  });
}

}  // namespace

std::vector<Message> exchange(
    const std::vector<Sending>& sends,
    const std::vector<Channel>& receives,
    std::chrono::milliseconds timeout) {
  auto longest = timeout;
  for (size_t i = 0; timeout.count() <= 0 && i < sends.size(); ++i)
    longest = std::max(longest, sends[i].channel.impl_->timeout);
  for (size_t i = 0; timeout.count() <= 0 && i < receives.size(); ++i)
    longest = std::max(longest, receives[i].impl_->timeout);
  const Deadline deadline = Deadline::after(longest);
  WaitBudget budget(deadline);
  std::vector<size_t> to_send(sends.size()), to_receive(receives.size());
  std::iota(to_send.begin(), to_send.end(), 0);
  std::iota(to_receive.begin(), to_receive.end(), 0);
  std::vector<Message> received(receives.size());
  EventWait event;
  for (const Sending& sending : sends)
    event.add(sending.channel.sender().doorbell());
  for (const Channel& channel : receives)
    event.add(channel.receiver().doorbell());
  while (!to_send.empty() || !to_receive.empty()) {
    const size_t before = to_send.size() + to_receive.size();
    go_through(
        to_send,
        [&](size_t i) { return sends[i].channel.impl_.get(); },
        [&](size_t i) { return sends[i].channel.try_send(sends[i].message); });
    go_through(
        to_receive,
        [&](size_t i) { return receives[i].impl_.get(); },
        [&](size_t i) {
          auto message = receives[i].try_receive();
          if (message)
            received[i] = std::move(*message);
          return message.has_value();
        });
    if (to_send.size() + to_receive.size() < before) {
      event.found();
      continue;
    }
    if (!budget.charge())
      throw TimeoutError(text(
          "[comm] expected ",
          sends.size(),
          " sends and ",
          receives.size(),
          " receives within ",
          deadline.allowed().count(),
          " ms, but ",
          to_send.size(),
          " and ",
          to_receive.size(),
          " are left",
          to_receive.empty() ? ""
                             : text(
                                   "; first of all the message from rank ",
                                   receives[to_receive[0]].edge().from)));
    event.wait();
  }
  return received;
}

}  // namespace trireme::comm
