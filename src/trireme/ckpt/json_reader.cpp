#include "trireme/ckpt/json_reader.h"

#include <set>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

constexpr size_t kMostDepth = 32;

// Keeps the names of every object that is open, by depth.
class Nesting {
 public:
  explicit Nesting(const std::string& where) : where_(where) {}

  void open(size_t depth) {
    if (depth >= kMostDepth)
      refuse(where_, text("at most ", kMostDepth, " levels of JSON"), "more");
    names_.resize(depth + 1);
    names_[depth].clear();
  }

  void name(size_t depth, const std::string& name) {
    if (!names_[depth - 1].insert(name).second)
      refuse(where_, "each name once", text(in_quotes(name), " twice"));
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> names_;
};

}  // namespace

void refuse(
    const std::string& where,
    const std::string& wanted,
    const std::string& got,
    const std::string& remedy) {
  throw InvalidArgument(text(
      "[ckpt] ",
      where,
      ": expected ",
      wanted,
      ", got ",
      got,
      remedy.empty() ? "" : "; ",
      remedy));
}

Json parse_json(std::string_view json, const std::string& where) {
  Nesting nesting(where);
  const auto look = [&nesting](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start ||
        event == Json::parse_event_t::array_start)
      nesting.open(static_cast<size_t>(depth));
    if (event == Json::parse_event_t::key)
      nesting.name(static_cast<size_t>(depth), parsed.get_ref<const std::string&>());
    return true;
  };
  try {
    return Json::parse(json, look);
  } catch (const Json::parse_error& error) {
    refuse(where, "JSON", text("something else at byte ", error.byte, " of it"));
  } catch (const Json::exception&) {
    refuse(where, "JSON", "a number that is too large");
  }
}

std::string shown(const Json& value) {
  if (value.is_structured())
    return text(value.is_array() ? "a list of " : "an object of ", value.size());
  if (value.is_string())
    return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

const Json& member(const Json& object, const char* name, const std::string& where) {
  if (!object.is_object())
    refuse(where, "an object", shown(object));
  const auto found = object.find(name);
  if (found == object.end())
    refuse(where, text("a member \"", name, "\""), "none");
  return *found;
}

uint64_t whole_number(
    const Json& value,
    uint64_t most,
    const std::string& what,
    const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
    refuse(where, text(what, " to be a whole number from 0 to ", most), shown(value));
  return value.get<uint64_t>();
}

std::string json_text(const Json& value, int indent, const std::string& where) {
  try {
    return value.dump(indent);
  } catch (const Json::exception&) {
    refuse(where, "names in UTF-8", "other bytes", "rename the tensor");
  }
}

}  // namespace trireme::ckpt
