#include "trireme/cli/sample.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "trireme/cli/output.h"
#include "trireme/cli/torch_ranks.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/data/tokenizer.h"
#include "trireme/data/utf8.h"
#include "trireme/train/config_origin.h"
#include "trireme/train/end_tokens.h"
#include "trireme/train/load_decoders.h"
#include "trireme/train/model_source.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

struct SampleArguments {
  std::string model;
  std::string prompt;
  std::string prompt_ids;
  train::SampleOptions options;
  std::string stop;
  std::string format = "text";
  int ranks = 1;
};

/// What is sampled from, and where it begins.
struct Request {
  fs::path folder;
  model::ModelPlan plan;
  /// Null if the folder has none.
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<int64_t> prompt;
  /// Where the model itself ends its text.
  std::vector<int64_t> ends;
};

std::vector<int64_t> parse_ids(std::string_view words, int64_t vocab_size) {
  std::vector<int64_t> ids;
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = words.find(',');
    const auto id = parse_number<int64_t>(words.substr(0, comma));
    if (!id || *id < 0 || *id >= vocab_size)
      throw InvalidArgument(text(
          "[cli] expected --prompt-ids to be numbers below ",
          vocab_size,
          " with commas between, got ",
          in_quotes(words.substr(0, comma)),
          "; give tokens of this model"));
    ids.push_back(*id);
    words.remove_prefix(comma == std::string_view::npos ? words.size() : comma + 1);
  }
  return ids;
}

/// With ids for a prompt, a tokenizer that is not supported is as none.
std::shared_ptr<const data::Tokenizer> load_tokenizer(const fs::path& file, bool ids) {
  try {
    return data::load_tokenizer(file);
  } catch (const NotSupported& error) {
    if (!ids)
      throw NotSupported(text(error.what(), ", or give --prompt-ids"));
    return nullptr;
  }
}

Request make_request(const SampleArguments& arguments) {
  train::check_options(arguments.options);
  Request request;
  request.folder = arguments.model;
  request.plan =
      train::about("--model", [&] { return train::plan_folder(request.folder); });
  const fs::path tokenizer = request.folder / "tokenizer.json";
  if (fs::exists(tokenizer))
    request.tokenizer = load_tokenizer(tokenizer, !arguments.prompt_ids.empty());
  request.ends = train::end_tokens(request.folder, request.tokenizer.get());
  if (request.tokenizer == nullptr && !arguments.stop.empty())
    throw InvalidArgument(text(
        "[cli] expected a tokenizer.json in ",
        in_quotes(arguments.model),
        " for --stop, got none; leave it out, or take --max-new-tokens"));
  const int64_t vocabulary = request.plan.vocab_size;
  if (!arguments.prompt_ids.empty()) {
    request.prompt = parse_ids(arguments.prompt_ids, vocabulary);
    return request;
  }
  if (request.tokenizer == nullptr)
    throw InvalidArgument(text(
        "[cli] expected --prompt-ids, since ",
        in_quotes(arguments.model),
        " has no tokenizer.json, got ",
        arguments.prompt.empty() ? "no prompt" : "--prompt",
        "; give --prompt-ids"));
  request.prompt = request.tokenizer->encode_prompt(
      arguments.prompt.empty() ? "\n" : arguments.prompt);
  return request;
}

train::Generated run_rank(
    const comm::Group& world,
    const Request& request,
    const SampleArguments& arguments) {
  train::StageDecoders stages =
      train::load_decoders(world, request.plan, request.folder);
  const auto ends = [&](const std::vector<int64_t>& news) {
    const auto& own = request.ends;
    if (std::find(own.begin(), own.end(), news.back()) != own.end())
      return true;
    if (arguments.stop.empty())
      return false;
    // Every token has a byte or more, so the end of the text is enough to look at.
    const size_t most = arguments.stop.size() + 1;
    const size_t first = news.size() - std::min(news.size(), most);
    const std::string end = request.tokenizer->decode(std::span(news).subspan(first));
    return end.find(arguments.stop) != std::string::npos;
  };
  train::SampleOptions options = arguments.options;
  if (request.tokenizer != nullptr)
    options.vocabulary = request.tokenizer->vocab_size();
  return train::generate(
      world, stages, request.prompt, options, request.plan.position_limit(), ends);
}

void print(
    const Request& request,
    const SampleArguments& arguments,
    const train::Generated& made) {
  const std::string all =
      request.tokenizer ? data::as_utf8(request.tokenizer->decode(made.ids)) : "";
  if (arguments.format == "json") {
    nlohmann::ordered_json json{{"ids", made.ids}, {"new_ids", made.new_ids}};
    json["text"] = request.tokenizer ? nlohmann::ordered_json(all) : nullptr;
    json["logprobs"] = made.logprobs;
    std::cout << json.dump() << "\n";
    return;
  }
  if (request.tokenizer) {
    std::cout << all << "\n";
    return;
  }
  const char* comma = "";
  for (const int64_t id : made.ids) {
    std::cout << comma << id;
    comma = ",";
  }
  std::cout << "\n";
}

int run(const SampleArguments& arguments) {
  Request request;
  try {
    request = make_request(arguments);
    train::check_ranks(request.plan, arguments.ranks);
  } catch (const Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kWrongUsage;
  }
  return run_ranks(arguments.ranks, [&](const comm::Group& world) {
    const train::Generated made = run_rank(world, request, arguments);
    if (world.rank() == 0)
      print(request, arguments, made);
    return 0;
  });
}

void add_options(CLI::App& sub, SampleArguments& arguments) {
  sub.add_option("--model", arguments.model, "A checkpoint, or a Hugging Face folder")
      ->required()
      ->type_name("DIR");
  auto* prompt = sub.add_option(
                        "--prompt",
                        arguments.prompt,
                        "What the text begins with; if not given, a new line")
                     ->type_name("TEXT");
  sub.add_option("--prompt-ids", arguments.prompt_ids, "The same as tokens: 1,2,3")
      ->type_name("IDS")
      ->excludes(prompt);
  train::SampleOptions& options = arguments.options;
  sub.add_option("--max-new-tokens", options.max_new_tokens, "How many tokens to draw")
      ->capture_default_str();
  sub.add_option("--temperature", options.temperature, "0: always the likeliest")
      ->capture_default_str();
  sub.add_option("--top-k", options.top_k, "Only the K likeliest; 0: all")
      ->capture_default_str();
  sub.add_option(
         "--top-p",
         options.top_p,
         "Only the likeliest tokens that have probability P together")
      ->capture_default_str();
  sub.add_option("--seed", options.seed, "The same seed gives the same text")
      ->capture_default_str();
  sub.add_option(
         "--stop", arguments.stop, "Stop after this text, as at the model's own end")
      ->type_name("TEXT");
  sub.add_option("--format", arguments.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub.add_option("--ranks", arguments.ranks, "Processes that share the layers")
      ->check(CLI::Range(1, 2048).description(""))
      ->capture_default_str();
}

}  // namespace

void add_sample(CLI::App& app, int& exit_code) {
  CLI::App* sub = app.add_subcommand("sample", "Text from a trained model");
  auto arguments = std::make_shared<SampleArguments>();
  add_options(*sub, *arguments);
  sub->footer(
      "Examples:\n"
      "  trireme sample --model runs/1/checkpoint/step-1000 --prompt \"The pipeline\"\n"
      "  trireme sample --model gpt2 --prompt-ids 464,3797 --temperature 0 --format "
      "json\n"
      "\n"
      "json gives ids (prompt and new), new_ids, text, and the log probability of each "
      "new\n"
      "token under the model, whatever temperature and limits are.");
  sub->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace trireme::cli
