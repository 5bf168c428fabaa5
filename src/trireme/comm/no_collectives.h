// Refuses collectives where they would have no order that all ranks share.
#pragma once
#include <string>

namespace trireme::comm {

/// While it lives, this thread's collective calls on groups of several ranks are
/// InvalidArgument with this text. For what runs beside something else that may call
/// collectives too: which of the two comes first would differ from rank to rank, and
/// calls of equal shape would take one another's numbers without a word.
///
///     comm::NoCollectives scope("[pipe] expected no collective here, got one; …");
class NoCollectives {
 public:
  explicit NoCollectives(std::string refusal);
  ~NoCollectives();
  NoCollectives(const NoCollectives&) = delete;
  NoCollectives& operator=(const NoCollectives&) = delete;

  /// Throws if one lives on this thread; the innermost has the word.
  static void check();

 private:
  std::string refusal_;
  const NoCollectives* outer_;
};

}  // namespace trireme::comm
