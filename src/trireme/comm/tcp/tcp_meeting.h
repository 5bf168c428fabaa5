// How the ranks of a world find one another, over the store.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/store.h"

namespace trireme::comm {

/// One attempt of all ranks to meet. Whether it has come about is decided at one place
/// in the store: a rank that gives up says so there, and can do so only while another
/// is missing. So either all ranks pass, or none does, and all try again elsewhere.
class TcpMeeting {
 public:
  /// What waits throw once another rank has given this attempt up.
  struct GivenUp {
    /// Who did not come to it.
    std::string why;
  };
  using Check = std::function<void()>;

  /// `place` is this attempt's alone. `check` is called while this rank waits; what it
  /// throws ends the wait.
  TcpMeeting(net::PrefixStore place, int rank, int size, Check check);

  /// Says where this rank can be found, and gives where all can. TimeoutError names
  /// those that do not come.
  std::vector<std::string> trade_addresses(
      const std::string& own, const Deadline& deadline);
  /// Waits until all ranks have come here; when it returns, nobody gives up any more.
  void pass(const Deadline& deadline);

  /// Whether it has come about or was given up: nobody can join it any more.
  bool over();
  /// Why another rank has given this attempt up, if one has.
  std::optional<std::string> given_up();
  /// Throws GivenUp, or what the caller's check does.
  void check();

 private:
  /// Gives the reason that was first, if it is not that all have met.
  std::optional<std::string> decide(const std::string& outcome);

  net::PrefixStore place_;
  int rank_, size_;
  Check check_;
};

}  // namespace trireme::comm
