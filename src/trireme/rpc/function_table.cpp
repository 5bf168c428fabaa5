#include "trireme/rpc/function_table.h"

#include <algorithm>
#include <cctype>

#include "trireme/core/error.h"
#include "trireme/core/nearest.h"

namespace trireme::rpc {

namespace {

constexpr std::size_t kLongestFunctionName = 255;

bool fits_name(unsigned char letter) {
  return std::isalnum(letter) ||
         std::string_view("_.:-").find(static_cast<char>(letter)) !=
             std::string_view::npos;
}

}  // namespace

FunctionTable& FunctionTable::insert(ServedFunction function) {
  const std::string name = function.name;
  if (name.empty() || name.size() > kLongestFunctionName ||
      !std::all_of(name.begin(), name.end(), fits_name))
    throw InvalidArgument(text(
        "[rpc] expected 1 to ",
        kLongestFunctionName,
        " letters, digits and \"_.:-\" for a function's name, got \"",
        name,
        "\"; give it another name"));
  if (!functions_.emplace(name, std::make_shared<ServedFunction>(std::move(function)))
           .second)
    throw InvalidArgument(text(
        "[rpc] expected each function's name once, got ",
        name,
        " twice; give one of the two another name"));
  return *this;
}

const ServedFunction* FunctionTable::find(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second.get();
}

std::string FunctionTable::hint(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [other, function] : functions_)
    names.push_back(other);
  return did_you_mean(name, names);
}

void FunctionTable::refuse_method(const std::type_info& type) {
  throw InvalidArgument(text(
      "[rpc] expected a method that stands in the table of functions, got one of type ",
      name_in_words(type),
      "; add it by FunctionTable::method() on both sides"));
}

}  // namespace trireme::rpc
