#include "trireme/cli/output.h"

#include <cstring>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"

namespace trireme::cli {
namespace {

// The parts of `all` around `mark`, if it is there.
struct Cut {
  std::string before;
  std::string after;
};
std::optional<Cut> cut(const std::string& all, std::string_view mark) {
  const size_t at = all.find(mark);
  if (at == std::string::npos)
    return std::nullopt;
  return Cut{all.substr(0, at), all.substr(at + mark.size())};
}

// "86400" of "86400.000000".
std::string short_number(std::string number) {
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.ends_with('.'))
      number.pop_back();
  }
  return number;
}

// The parser lists values before the options that they follow; the option is what is
// wrong.
std::string unknown_word(
    const CLI::App& app, const std::string& command, const std::string& words) {
  std::istringstream in(words);
  std::string word;
  while (!word.starts_with("-") && in >> word) {
  }
  const bool option = word.starts_with("-");
  std::vector<std::string> names;
  for (const CLI::Option* one : app.get_options())
    for (const std::string& name : one->get_lnames())
      names.push_back(text("--", name));
  return text(
      "expected ",
      option ? "an option of " : "no further word for ",
      command,
      ", got ",
      word,
      option ? did_you_mean(word, names) : "");
}

// What is wrong with the value of an option.
std::optional<std::string> wrong_value(
    const std::string& name, const std::string& what) {
  if (const auto range = cut(what, " not in range "))
    if (const auto ends = cut(range->after, " to "))
      return text(
          "expected ",
          name,
          " to be from ",
          short_number(ends->before),
          " to ",
          short_number(ends->after),
          ", got ",
          cut(range->before, "Value ").value_or(Cut{"", range->before}).after);
  if (const auto set = cut(what, " not in {")) {
    std::string words = set->after.substr(0, set->after.find('}'));
    for (size_t comma = 0; (comma = words.find(',', comma)) != words.npos; comma += 2)
      words.insert(comma + 1, " ");
    return text("expected ", name, " to be one of ", words, ", got ", set->before);
  }
  if (const auto many = cut(what, " required but received ");
      many && many->before.starts_with("At Most"))
    return text("expected ", name, " once, got it ", many->after, " times");
  if (what.find(" required ") != std::string::npos)
    return text("expected a value after ", name, ", got none");
  if (const auto ours = cut(what, "expected "); ours && ours->before.empty())
    return text("expected ", name, " to be ", ours->after);
  return std::nullopt;
}

// The parser's words in the form of all our errors.
std::string expectation(
    const CLI::App& app, const std::string& command, const std::string& what) {
  for (const char* known : {"argument was not expected: ", "were not expected: "})
    if (const auto extra = cut(what, known))
      return unknown_word(app, command, extra->after);
  if (what.ends_with(" is required"))
    return text(
        "expected ",
        what.substr(0, what.size() - std::strlen(" is required")),
        ", got none");
  if (const auto two = cut(what, " excludes "))
    return text("expected ", two->before, " or ", two->after, ", got both");
  if (const auto value = cut(what, "Could not convert: "))
    if (const auto parts = cut(value->after, " = "))
      return text("expected a number for ", parts->before, ", got ", parts->after);
  if (const auto option = cut(what, ": "); option && option->before.starts_with("-"))
    if (const auto wrong = wrong_value(option->before, option->after))
      return *wrong;
  return what;
}

// The parser alone would only say that a word is missing.
[[noreturn]] void refuse_word(const CLI::App& app) {
  std::vector<std::string> names;
  std::string all;
  for (const CLI::App* word : app.get_subcommands({})) {
    names.push_back(word->get_name());
    all += (all.empty() ? "" : ", ") + names.back();
  }
  const auto got = app.remaining();
  throw CLI::RequiredError(
      text(
          "expected a command (",
          all,
          "), got ",
          got.empty() ? "none" : in_quotes(got[0]),
          got.empty() ? "" : did_you_mean(got[0], names)),
      CLI::ExitCodes::RequiredError);
}

}  // namespace

std::string labelled(const std::string& label, const std::string& value) {
  return text(std::left, std::setw(15), label, " ", value, "\n");
}

std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  std::string command = app->get_name();
  const CLI::App* asked = app;
  while (!asked->get_subcommands().empty()) {
    asked = asked->get_subcommands().front();
    command += text(" ", asked->get_name());
  }
  const std::string what = expectation(*asked, command, error.what());
  return text("trireme: [cli] ", escaped(what), "; see ", command, " --help\n");
}

void require_word(CLI::App& app) {
  app.require_subcommand(0, 1);
  app.parse_complete_callback([&app] {
    if (app.get_subcommands().empty())
      refuse_word(app);
  });
}

}  // namespace trireme::cli
