// JSON as a tree that knows its lines. nlohmann-json reads it and stays inside json.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text.hpp"

namespace hjcdik::model {

struct Json {
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  int line = 0;       // of its first character, or of the last one for text
  double number = 0;  // of a boolean 1 or 0
  std::string string;
  std::vector<Json> items;                            // of an array
  std::vector<std::pair<std::string, Json>> members;  // of an object, in the file's order
};

// "an array" and the like, for messages.
const char* to_string(Json::Kind kind) noexcept;

// Throws ModelError. A key that an object has twice is an error.
Json parse_json(const SourceText& source);

}  // namespace hjcdik::model
