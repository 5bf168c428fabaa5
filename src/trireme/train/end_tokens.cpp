#include "trireme/train/end_tokens.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/proc_text.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void refuse(const fs::path& file, const std::string& got) {
  throw InvalidArgument(text(
      "[train] expected eos_token_id in ",
      in_quotes(file.string()),
      " to be a token, a list of them or null, got ",
      got,
      "; correct the file"));
}

std::vector<int64_t> parse(const fs::path& file, const std::string& all) {
  const Json json = Json::parse(all, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    refuse(file, "a file that is no JSON object");
  const Json named = json.value("eos_token_id", Json());
  if (named.is_null())
    return {};
  std::vector<int64_t> ids;
  for (const Json& one : named.is_array() ? named : Json::array({named})) {
    if (!one.is_number_integer())
      refuse(file, escaped(one.dump(-1, ' ', true, Json::error_handler_t::replace)));
    ids.push_back(one.get<int64_t>());
  }
  return ids;
}

}  // namespace

std::vector<int64_t> end_tokens(
    const fs::path& folder, const data::Tokenizer* tokenizer) {
  const fs::path first = folder / "generation_config.json";
  const fs::path second = folder / "config.json";
  if (const auto all = read_text_file(first))
    return parse(first, *all);
  if (const auto all = read_text_file(second))
    if (auto ids = parse(second, *all); !ids.empty())
      return ids;
  const auto end = tokenizer == nullptr ? std::nullopt : tokenizer->end_of_text();
  return end ? std::vector{*end} : std::vector<int64_t>{};
}

}  // namespace trireme::train
