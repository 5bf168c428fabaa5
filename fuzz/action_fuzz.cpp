// Any text as an action: it is refused, or printing gives the same text again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"

namespace {

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme::sched;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Action action = parse_action(text);
    const std::string printed = to_string(action);
    if (printed != without_blanks(text) || parse_action(printed) != action)
      std::abort();
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
