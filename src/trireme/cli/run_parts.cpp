#include "trireme/cli/run_parts.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "trireme/cli/rank_count.h"
#include "trireme/cli/run_nodes.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"

namespace trireme::cli {
namespace {

bool only_colons(const std::string& word) {
  return !word.empty() && word.find_first_not_of(':') == std::string::npos;
}

// "--tee" of "--tee=3", "-t" of "-t3".
std::string option_name(const std::string& word) {
  return word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
}

// What the parser has left over begins with a program, or with an option of others.
void check_begin(const std::string& word, const CLI::App& run) {
  if (!word.starts_with("-"))
    return;
  if (run.get_option_no_throw(option_name(word)) != nullptr)
    throw InvalidArgument(text(
        "[cli] expected -n, --role or a program after \":\", got ",
        in_quotes(word),
        ", which is for the whole job; put it before the first program"));
  const std::string meant = did_you_mean(word, {"--role", "--nproc-per-node"});
  throw InvalidArgument(text(
      "[cli] expected -n, --role or a program after \":\", got ",
      in_quotes(word),
      meant.empty() ? "; see trireme run --help" : meant));
}

}  // namespace

void add_part_options(CLI::App& part, PartArguments& arguments) {
  const std::string group = "As torchrun (with - or _)";
  part.prefix_command();
  part.add_option(
          text("-n,", both_spellings("--nproc-per-node")),
          arguments.ranks,
          "Ranks: a number, auto, cpu or gpu")
      ->group(group)
      ->type_name("N")
      ->capture_default_str();
  part.add_option(
          "--role",
          arguments.role,
          "ROLE_NAME; of several programs each has its file name, if not given")
      ->group(group)
      ->type_name("NAME");
}

std::vector<std::string> split_command(
    const std::vector<std::string>& words, PartArguments& arguments) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  arguments.dashes = dashes != words.end();
  if (arguments.dashes)
    arguments.command.assign(dashes + 1, words.end());
  return {words.begin(), dashes};
}

void join_command(const CLI::App& part, PartArguments& arguments) {
  // A program that stands before the -- has it among its own arguments.
  std::vector<std::string> before = part.remaining();
  if (!before.empty() && arguments.dashes)
    before.emplace_back("--");
  arguments.command.insert(arguments.command.begin(), before.begin(), before.end());
}

std::vector<std::vector<std::string>> split_parts(
    const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> parts(1);
  for (const std::string& word : words)
    if (word == ":")
      parts.emplace_back();
    else
      parts.back().push_back(only_colons(word) ? word.substr(1) : word);
  return parts;
}

std::vector<std::string> one_part(std::vector<std::string> words) {
  for (std::string& word : words)
    if (only_colons(word))
      word += ':';
  return words;
}

PartArguments read_part(const std::vector<std::string>& words, const CLI::App& run) {
  PartArguments part;
  CLI::App app;
  app.set_help_flag();  // the help is of the whole command
  add_part_options(app, part);
  std::vector<std::string> before = split_command(words, part);
  std::reverse(before.begin(), before.end());  // CLI11 wants the last word first
  app.parse(before);
  if (const auto left = app.remaining(); !left.empty())
    check_begin(left[0], run);
  join_command(app, part);
  if (part.command.empty())
    throw InvalidArgument(
        "[cli] expected a program after \":\", got none; write one, or \"::\" for an "
        "argument that is a colon");
  return part;
}

launch::Part to_part(const PartArguments& arguments) {
  return {
      .role = arguments.role,
      .ranks =
          parse_rank_count(arguments.ranks, rank_sources(Environment::of_process())),
      .command = arguments.command};
}

}  // namespace trireme::cli
