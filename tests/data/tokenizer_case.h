// A small tokenizer.json for tests, to be changed one field at a time.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "trireme/data/byte_alphabet.h"

namespace trireme::data {

/// All bytes as tokens 0 to 255, then "he", "ll", "hell" and " hell"; token 300 is
/// added.
inline nlohmann::json tokenizer_case() {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    vocab[letters_of({&letter, 1})] = byte;
  }
  vocab["he"] = 256;
  vocab["ll"] = 257;
  vocab["hell"] = 258;
  vocab["Ġhell"] = 259;
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {{{"id", 300},
         {"content", "<|endoftext|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"vocab", vocab},
        {"merges", {"h e", "l l", "he ll", "Ġ hell"}}}}};
}

/// Sequence[Split(pattern), ByteLevel], as Llama 3 has it.
inline nlohmann::json split_sequence(const std::string& pattern) {
  return {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", pattern}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

/// A template that puts token 300 before a text.
inline nlohmann::json start_template() {
  return {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", nlohmann::json::array()},
      {"special_tokens",
       {{"<|endoftext|>",
         {{"id", "<|endoftext|>"}, {"ids", {300}}, {"tokens", {"<|endoftext|>"}}}}}}};
}

}  // namespace trireme::data
