#include "trireme/rpc/peer_counters.h"

#include <numeric>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/core/number_text.h"
#include "trireme/rpc/protocol.h"

namespace trireme::rpc {
namespace {

// In the order of Status.
constexpr std::array kEnds{
    "returned", "failed", "refused", "full", "lost", "late", "cancelled"};
static_assert(kEnds.size() == static_cast<std::size_t>(Status::Cancelled) + 1);
static_assert(
    std::tuple_size_v<decltype(PeerCounters::Figures::ended)> == kEnds.size());

std::string number(std::uint64_t count) {
  return with_thousands(static_cast<std::int64_t>(count));
}

// The counters are read one after the other, so a later one may be ahead.
std::uint64_t difference(std::uint64_t all, std::uint64_t part) {
  return all > part ? all - part : 0;
}

}  // namespace

void PeerCounters::ended(Status status, std::chrono::nanoseconds time) {
  add(ended_.at(static_cast<std::size_t>(status)), 1);
  if (status == Status::Value)
    latency_.add(time);
}

std::uint64_t PeerCounters::Figures::failed() const {
  return std::accumulate(ended.begin() + 1, ended.end(), std::uint64_t{0});
}

std::uint64_t PeerCounters::Figures::waiting() const {
  return difference(sent, returned() + failed());
}

std::uint64_t PeerCounters::Figures::running() const {
  return difference(received, answered);
}

PeerCounters::Figures& PeerCounters::Figures::operator+=(const Figures& other) {
  sent += other.sent;
  for (std::size_t i = 0; i < ended.size(); ++i)
    ended[i] += other.ended[i];
  received += other.received;
  answered += other.answered;
  bytes_out += other.bytes_out;
  bytes_in += other.bytes_in;
  return *this;
}

PeerCounters::Figures PeerCounters::figures() const {
  const auto load = [](const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  Figures out;
  for (std::size_t i = 0; i < ended_.size(); ++i)
    out.ended[i] = load(ended_[i]);
  out.answered = load(answered_);
  out.sent = load(sent_);
  out.received = load(received_);
  out.bytes_out = load(bytes_out_);
  out.bytes_in = load(bytes_in_);
  return out;
}

std::string PeerCounters::text() const {
  const Figures now = figures();
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < kEnds.size(); ++i)
    if (now.ended[i] != 0)
      ends.push_back(number(now.ended[i]) + " " + kEnds[i]);
  if (now.waiting() != 0)
    ends.push_back(number(now.waiting()) + " waiting");
  return trireme::text(
      number(now.sent),
      " calls (",
      list_names(ends),
      "), ",
      number(now.received),
      " received (",
      number(now.running()),
      " running), ",
      bytes_text(now.bytes_out),
      " out, ",
      bytes_text(now.bytes_in),
      " in; returned ",
      latency_.text());
}

}  // namespace trireme::rpc
