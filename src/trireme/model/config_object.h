// Reads config.json, key by key, and says which one is wrong.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::model {

/// A JSON object. Keys that nobody asks for are passed over, as transformers does:
/// files have many that say nothing about the model. A key whose value is null is not
/// there.
///
///     const ConfigObject config = ConfigObject::parse(text);
///     const int64_t layers = config.whole("n_layer", 12);
class ConfigObject {
 public:
  /// InvalidArgument unless it is an object; `where` is what messages call it.
  static ConfigObject parse(std::string_view json, std::string where = "config.json");

  bool has(const std::string& key) const;
  /// The first of these keys that is there, or the first at all.
  std::string first_of(std::initializer_list<const char*> keys) const;

  // The value, or `fallback` if the key is not there. InvalidArgument names the key
  // when its value has another type, or is out of range.

  int64_t whole(const std::string& key, int64_t fallback, int64_t least = 1) const;
  double number(
      const std::string& key, double fallback, double least, double most) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string word(const std::string& key, const std::string& fallback) const;
  std::optional<ConfigObject> object(const std::string& key) const;

  /// Throws InvalidArgument about a key: what was expected, and what stands there.
  [[noreturn]] void refuse(const std::string& key, const std::string& wanted) const;
  /// Throws NotSupported about a key and its value.
  [[noreturn]] void not_supported(
      const std::string& key, const std::string& remedy) const;

  /// The same with a key set; `value` is JSON text.
  ConfigObject with(const std::string& key, const std::string& value) const;
  /// The same with the keys of `other` that are not there.
  ConfigObject with_missing(const ConfigObject& other) const;
  /// The value of a key as JSON text, "null" if it is not there.
  std::string json_of(const std::string& key) const;
  /// As text, over several lines.
  std::string dump() const;

 private:
  struct Content;
  ConfigObject(std::shared_ptr<const Content> content, std::string where);
  std::string shown(const std::string& key) const;
  std::shared_ptr<const Content> content_;
  std::string where_;
};

/// InvalidArgument names the key of a size that is no size.
void check_at_least_one(const char* key, int64_t value);
/// InvalidArgument names both keys unless `part` divides `value`.
void check_divides(const char* key, int64_t value, const char* part_key, int64_t part);

}  // namespace trireme::model
