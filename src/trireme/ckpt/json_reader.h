// JSON from files that nobody vouches for. Not installed: the JSON library is our own
// affair.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace trireme::ckpt {

using Json = nlohmann::json;

/// Throws InvalidArgument: "[ckpt] WHERE: expected EXPECTED, got GOT; REMEDY".
[[noreturn]] void refuse(
    const std::string& where,
    const std::string& wanted,
    const std::string& got,
    const std::string& remedy = {});

/// Reads JSON text. Refuses what is none, what names a member twice (which value holds
/// would be the parser's whim), and what is nested deeper than any file of ours.
Json parse_json(std::string_view text, const std::string& where);

/// A value for a message: its text if it is short, else what it is.
std::string shown(const Json& value);

/// The member of an object; refused if there is none.
const Json& member(const Json& object, const char* name, const std::string& where);

/// A whole number from 0 to `most`; `what` names it in the message.
uint64_t whole_number(
    const Json& value,
    uint64_t most,
    const std::string& what,
    const std::string& where);

/// JSON text of a value; names that are no UTF-8 are refused.
std::string json_text(const Json& value, int indent, const std::string& where);

}  // namespace trireme::ckpt
