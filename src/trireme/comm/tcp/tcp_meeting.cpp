#include "trireme/comm/tcp/tcp_meeting.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/net/rendezvous.h"

namespace trireme::comm {
namespace {

constexpr std::string_view kOutcome = "outcome";
constexpr std::string_view kMet = "met";
constexpr std::string_view kGivenUp = "given up";

}  // namespace

TcpMeeting::TcpMeeting(net::PrefixStore place, int rank, int size, Check check)
    : place_(std::move(place)), rank_(rank), size_(size), check_(std::move(check)) {}

std::vector<std::string> TcpMeeting::trade_addresses(
    const std::string& own, const Deadline& deadline) {
  try {
    return net::join(place_, size_, rank_, own, deadline, [this] { check(); });
  } catch (const TimeoutError&) {
    decide(Outcome::GivenUp);
    throw;
  }
}

void TcpMeeting::pass(const Deadline& deadline) {
  net::PrefixStore met("met/", std::make_shared<net::PrefixStore>(place_));
  try {
    net::join(met, size_, rank_, "", deadline, [this] { check(); });
  } catch (const TimeoutError&) {
    // The others may have come at the last moment, and gone on.
    if (decide(Outcome::GivenUp) == Outcome::GivenUp)
      throw;
  }
  if (decide(Outcome::Met) == Outcome::GivenUp)
    throw GivenUp();
}

TcpMeeting::Outcome TcpMeeting::decide(Outcome wish) {
  const auto decided = place_.compare_set(
      kOutcome, std::nullopt, wish == Outcome::Met ? kMet : kGivenUp);
  return decided.value == kMet ? Outcome::Met : Outcome::GivenUp;
}

bool TcpMeeting::given_up() {
  return place_.try_get(kOutcome) == kGivenUp;
}

void TcpMeeting::check() {
  check_();
  if (given_up())
    throw GivenUp();
}

}  // namespace trireme::comm
