// Makes text from outside safe to print: no control character reaches a terminal or a
// log line, so a value can neither forge a line nor hide one.
#pragma once
#include <string>
#include <string_view>

namespace trireme {

/// `text` with every control character as \n, \t, \r or \xNN. Printable UTF-8 stays.
std::string escaped(std::string_view text);

/// `text` escaped, in double quotes and cut near 80 bytes, for messages: `"abc"`.
std::string in_quotes(std::string_view text);

}  // namespace trireme
