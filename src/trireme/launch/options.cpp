#include "trireme/launch/options.h"

#include <algorithm>
#include <cstring>
#include <sys/wait.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"

namespace trireme::launch {
namespace {

std::optional<Streams> streams_of(std::string_view word) {
  const auto bits = parse_number<int>(word);
  if (!bits || *bits < 0 || *bits > 3)
    return std::nullopt;
  return Streams{.out = (*bits & 1) != 0, .err = (*bits & 2) != 0};
}

// One "rank:streams" of a list; false if it is none, or if the rank was there before.
bool add_rank(StreamChoice& choice, std::string_view item) {
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos)
    return false;
  const auto rank = parse_number<int>(item.substr(0, colon));
  const auto streams = streams_of(item.substr(colon + 1));
  return rank && *rank >= 0 && streams && choice.ranks.emplace(*rank, *streams).second;
}

}  // namespace

Streams StreamChoice::of(int rank) const {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? all : found->second;
}

bool StreamChoice::any() const {
  return all.any() || std::any_of(ranks.begin(), ranks.end(), [](const auto& one) {
           return one.second.any();
         });
}

StreamChoice parse_stream_choice(std::string_view option, std::string_view value) {
  if (const auto streams = streams_of(value))
    return {.all = *streams};
  StreamChoice choice;
  std::string_view rest = value;
  while (true) {
    const size_t comma = rest.find(',');
    if (!add_rank(choice, rest.substr(0, comma)))
      throw InvalidArgument(text(
          "[launch] expected ",
          option,
          " to be 0 (none), 1 (stdout), 2 (stderr), 3 (both) or a list by rank as "
          "0:3,1:2, got ",
          in_quotes(value),
          "; give one of these"));
    if (comma == std::string_view::npos)
      return choice;
    rest.remove_prefix(comma + 1);
  }
}

Ending ending_of(int status) {
  if (WIFSIGNALED(status))
    return {
        .exit_code = 0,
        .signal = WTERMSIG(status),
        .core_dumped = WCOREDUMP(status) != 0};
  return {.exit_code = WEXITSTATUS(status)};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? text("SIG", name) : text("signal ", signal);
}

std::string to_string(const Ending& ending) {
  if (ending.signal == 0)
    return text("exited with code ", ending.exit_code);
  return text(
      "was ended by ",
      signal_name(ending.signal),
      ending.core_dumped ? " (core dumped)" : "");
}

}  // namespace trireme::launch
