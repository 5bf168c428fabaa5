#include "trireme/data/tokenizer_spec.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::data {
namespace {

// Not the ordered one: it looks for a name in as many steps as there are names.
using Json = nlohmann::json;

/// A value as a message shows it. What is nested is named only: a file may nest so deep
/// that writing it takes more stack than there is.
std::string shown(const Json& value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return text("a list of ", value.size());
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>())
                           : value.dump();
}

std::optional<int64_t> token_in(const Json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > UINT32_MAX)
    return std::nullopt;
  return json.get<int64_t>();
}

/// A value of the file, and where it stands there: "model.merges[3]". Null and missing
/// are the same, as in the files.
class Value {
 public:
  Value(const Json& json, std::string path, const std::string& file)
      : json_(json), path_(std::move(path)), file_(file) {}

  Value at(const char* name) const {
    static const Json null;
    if (!json_.is_object())
      refuse("an object");
    const auto found = json_.find(name);
    const std::string path = path_.empty() ? name : text(path_, ".", name);
    return {found == json_.end() ? null : *found, path, file_};
  }
  std::vector<Value> list() const {
    if (!json_.is_array())
      refuse("a list");
    std::vector<Value> values;
    for (size_t i = 0; i < json_.size(); ++i)
      values.emplace_back(json_[i], text(path_, "[", i, "]"), file_);
    return values;
  }
  bool is_null() const { return json_.is_null(); }
  bool boolean(bool fallback) const {
    if (is_null())
      return fallback;
    if (!json_.is_boolean())
      refuse("true or false");
    return json_.get<bool>();
  }
  const std::string& string() const {
    if (!json_.is_string())
      refuse("a text");
    return json_.get_ref<const std::string&>();
  }
  int64_t token() const {
    const auto token = token_in(json_);
    if (!token)
      refuse("the number of a token");
    return *token;
  }
  /// Null or an empty text.
  bool is_blank() const {
    return is_null() ||
           (json_.is_string() && json_.get_ref<const std::string&>().empty());
  }
  const Json& json() const { return json_; }

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw InvalidArgument(text(
        "[data] ",
        in_quotes(file_),
        ", field ",
        escaped(path_),
        ": expected ",
        wanted,
        ", got ",
        shown(json_),
        "; it is no tokenizer.json, or a damaged one"));
  }
  [[noreturn]] void not_supported(const std::string& supported) const {
    throw NotSupported(text(
        "[data] ",
        in_quotes(file_),
        ", field ",
        escaped(path_),
        ": expected ",
        supported,
        ", got ",
        shown(json_),
        "; tokenize with another program and train on its .bin file"));
  }

 private:
  const Json& json_;
  std::string path_;
  const std::string& file_;
};

/// Reads the parts of a file into a spec.
class SpecReader {
 public:
  SpecReader(const Json& json, const std::string& file) : file_(json, "", file) {}

  TokenizerSpec read() {
    read_model(file_.at("model"));
    for (const Value& added : read_list(file_.at("added_tokens")))
      read_added(added);
    read_normalizer(file_.at("normalizer"));
    read_splitters();
    if (!file_.at("post_processor").is_null())
      read_post_processor(file_.at("post_processor"));
    const Value decoder = file_.at("decoder");
    if (decoder.is_null() || decoder.at("type").string() != "ByteLevel")
      (decoder.is_null() ? decoder : decoder.at("type")).not_supported("\"ByteLevel\"");
    return std::move(spec_);
  }

 private:
  static std::vector<Value> read_list(const Value& value) {
    return value.is_null() ? std::vector<Value>{} : value.list();
  }
  void read_model(const Value& model);
  /// False if it is none.
  bool read_merge(const Json& merge);
  void read_added(const Value& added);
  void read_normalizer(const Value& normalizer);
  void read_splitters();
  void read_split(const Value& split);
  void read_byte_level(const Value& byte_level, bool is_first);
  void read_post_processor(const Value& processor);
  void read_template(const Value& processor);

  Value file_;
  TokenizerSpec spec_;
};

void SpecReader::read_model(const Value& model) {
  if (const Value type = model.at("type"); !type.is_null() && type.string() != "BPE")
    type.not_supported("\"BPE\"");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.at(name).is_blank())
      model.at(name).not_supported("none");
  if (const Json& dropout = model.at("dropout").json();
      !dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0))
    model.at("dropout").not_supported("none");
  spec_.handles_unknown =
      !model.at("unk_token").is_blank() || model.at("byte_fallback").boolean(false);
  spec_.ignore_merges = model.at("ignore_merges").boolean(false);
  const Value vocab = model.at("vocab");
  if (!vocab.json().is_object() || vocab.json().empty())
    vocab.refuse("an object with tokens");
  for (const auto& [name, token] : vocab.json().items()) {
    const auto number = token_in(token);
    if (!number)
      vocab.refuse(text("numbers of tokens, but ", in_quotes(name), " has none"));
    spec_.vocab.emplace_back(name, *number);
  }
  const Value merges = model.at("merges");
  if (!merges.json().is_array())
    merges.refuse("a list");
  // There may be hundreds of thousands: only one that is wrong is worth a Value.
  for (size_t i = 0; i < merges.json().size(); ++i)
    if (!read_merge(merges.json()[i]))
      merges.list()[i].refuse("two tokens, with a space between them or in a list");
}

// "a b", or ["a", "b"] in newer files, which lets tokens have spaces.
bool SpecReader::read_merge(const Json& merge) {
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
      return false;
    spec_.merges.emplace_back(merge[0], merge[1]);
    return true;
  }
  if (!merge.is_string())
    return false;
  const auto& line = merge.get_ref<const std::string&>();
  const size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
    return false;
  spec_.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  return true;
}

void SpecReader::read_added(const Value& added) {
  if (added.at("single_word").boolean(false))
    added.at("single_word").not_supported("false");
  const bool special = added.at("special").boolean(false);
  spec_.added.push_back(
      {.token = added.at("id").token(),
       .content = added.at("content").string(),
       .left_strip = added.at("lstrip").boolean(false),
       .right_strip = added.at("rstrip").boolean(false),
       .normalized = added.at("normalized").boolean(!special)});
  if (spec_.added.back().content.empty())
    added.at("content").refuse("a text");
}

void SpecReader::read_normalizer(const Value& normalizer) {
  if (normalizer.is_null())
    return;
  const std::string& type = normalizer.at("type").string();
  if (type == "Sequence") {
    for (const Value& part : normalizer.at("normalizers").list()) {
      if (part.at("type").string() != "NFC")
        part.at("type").not_supported("\"NFC\"");
      spec_.nfc = true;
    }
    return;
  }
  if (type != "NFC")
    normalizer.at("type").not_supported("none or \"NFC\"");
  spec_.nfc = true;
}

void SpecReader::read_splitters() {
  const Value whole = file_.at("pre_tokenizer");
  if (whole.is_null())
    whole.not_supported("\"ByteLevel\", or a \"Sequence\" that ends with it");
  std::vector<Value> parts{whole};
  if (whole.at("type").string() == "Sequence")
    parts = whole.at("pretokenizers").list();
  constexpr size_t kMost = 16;  // each costs a level of the stack
  if (parts.empty() || parts.size() > kMost)
    whole.at("pretokenizers").not_supported("1 to 16 parts");
  for (size_t i = 0; i < parts.size(); ++i) {
    const Value type = parts[i].at("type");
    const bool is_last = i + 1 == parts.size();
    if (is_last && type.string() != "ByteLevel")
      type.not_supported("\"ByteLevel\" at the end");
    if (is_last)
      read_byte_level(parts[i], i == 0);
    else if (type.string() == "Split")
      read_split(parts[i]);
    else if (type.string() == "Digits")
      spec_.splitters.push_back(
          parts[i].at("individual_digits").boolean(false) ? Splitter::EachDigit
                                                          : Splitter::Digits);
    else
      type.not_supported("\"Split\" or \"Digits\" before \"ByteLevel\"");
  }
}

void SpecReader::read_split(const Value& split) {
  const Value pattern = split.at("pattern").at("Regex");
  if (pattern.is_null())
    split.at("pattern").not_supported("a \"Regex\"");
  const auto splitter = splitter_of(pattern.string());
  if (!splitter)
    pattern.not_supported(
        "the pattern of GPT-2, Llama 3, Qwen 2 or DeepSeek V3, letter by letter");
  const bool invert = split.at("invert").boolean(false);
  const std::string& behavior = split.at("behavior").string();
  // To remove what is not matched is the same where all is matched.
  const bool is_same = behavior == "Removed" && invert && covers_all(*splitter);
  if (!is_same && (behavior != "Isolated" || invert))
    split.at("behavior").not_supported("\"Isolated\", not inverted");
  spec_.splitters.push_back(*splitter);
}

void SpecReader::read_byte_level(const Value& byte_level, bool is_first) {
  spec_.add_prefix_space = byte_level.at("add_prefix_space").boolean(true);
  // After another part every word would get a space.
  if (spec_.add_prefix_space && !is_first)
    byte_level.at("add_prefix_space").not_supported("false after another part");
  if (byte_level.at("use_regex").boolean(true))
    spec_.splitters.push_back(Splitter::Gpt2);
}

void SpecReader::read_post_processor(const Value& processor) {
  const std::string& type = processor.at("type").string();
  if (type == "ByteLevel")
    return;  // about places in the text, not about tokens
  if (type == "TemplateProcessing")
    return read_template(processor);
  if (type != "Sequence")
    processor.at("type").not_supported(
        "\"ByteLevel\", \"TemplateProcessing\" or a \"Sequence\" of them");
  for (const Value& part : processor.at("processors").list()) {
    if (part.at("type").string() == "Sequence")
      part.at("type").not_supported("no \"Sequence\" inside another");
    read_post_processor(part);
  }
}

void SpecReader::read_template(const Value& processor) {
  if (!spec_.before.empty() || !spec_.after.empty())
    processor.at("type").not_supported("one \"TemplateProcessing\"");
  bool text_seen = false;
  for (const Value& part : processor.at("single").list()) {
    if (!part.at("Sequence").is_null()) {
      if (text_seen)
        part.at("Sequence").not_supported("the text once");
      text_seen = true;
      continue;
    }
    const std::string& name = part.at("SpecialToken").at("id").string();
    for (const Value& token :
         processor.at("special_tokens").at(name.c_str()).at("ids").list())
      (text_seen ? spec_.after : spec_.before).push_back(token.token());
  }
  if (!text_seen)
    processor.at("single").not_supported("a template with the text in it");
}

}  // namespace

TokenizerSpec parse_tokenizer_spec(std::string_view json, const std::string& file) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object())
    throw InvalidArgument(text(
        "[data] ",
        in_quotes(file),
        ": expected the JSON of a tokenizer, got ",
        json.size(),
        " bytes that are ",
        parsed.is_discarded() ? "no JSON" : "no object",
        "; it is no tokenizer.json, or a damaged one"));
  return SpecReader(parsed, file).read();
}

}  // namespace trireme::data
