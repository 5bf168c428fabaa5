#include "trireme/comm/tcp/tcp_meeting.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/rendezvous.h"

namespace trireme::comm {
namespace {

constexpr std::string_view kOutcome = "outcome";
// Or else why it was given up.
constexpr const char* kMet = "met";

}  // namespace

TcpMeeting::TcpMeeting(net::PrefixStore place, int rank, int size, Check check)
    : place_(std::move(place)), rank_(rank), size_(size), check_(std::move(check)) {}

std::vector<std::string> TcpMeeting::trade_addresses(
    const std::string& own, const Deadline& deadline) {
  try {
    return net::join(place_, size_, rank_, own, deadline, [this] { check(); });
  } catch (const TimeoutError& error) {
    decide(error.what());
    throw;
  }
}

void TcpMeeting::pass(const Deadline& deadline) {
  net::PrefixStore met("met/", std::make_shared<net::PrefixStore>(place_));
  try {
    net::join(met, size_, rank_, "", deadline, [this] { check(); });
  } catch (const TimeoutError& error) {
    // The others may have come at the last moment, and gone on.
    if (decide(error.what()))
      throw;
  }
  if (const auto why = decide(kMet))
    throw GivenUp{*why};
}

std::optional<std::string> TcpMeeting::decide(const std::string& outcome) {
  const auto decided = place_.compare_set(kOutcome, std::nullopt, outcome);
  return decided.value == kMet ? std::nullopt : decided.value;
}

bool TcpMeeting::over() {
  return place_.try_get(kOutcome).has_value();
}

std::optional<std::string> TcpMeeting::given_up() {
  const auto decided = place_.try_get(kOutcome);
  return decided == kMet ? std::nullopt : decided;
}

void TcpMeeting::check() {
  check_();
  if (const auto why = given_up())
    throw GivenUp{*why};
}

}  // namespace trireme::comm
