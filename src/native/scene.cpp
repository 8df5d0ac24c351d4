#include "native/scene.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "model/json.hpp"
#include "model/names.hpp"

namespace hjcdik::native {
namespace {

using model::Json;

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error("scene: " + message); }

const Json* member(const Json& object, const std::string& name) {
  for (const auto& [key, value] : object.members)
    if (key == name) return &value;
  return nullptr;
}

const Json& object(const Json& value, const std::string& what) {
  if (value.kind != Json::Kind::object) fail(what + " must be an object, not " + to_string(value.kind));
  return value;
}

// Appends a field's numbers, `count` of them; 0 stands for a single one that is no array.
void append(std::vector<double>& row, const Json& item, const std::string& field, std::size_t count,
            const std::string& owner) {
  const Json* value = member(item, field);
  if (value == nullptr) fail(owner + ": no " + model::in_quotes(field));
  const std::string expected =
      owner + ": " + field + " must be " + (count == 0 ? "a number" : std::to_string(count) + " numbers");
  if (count == 0) {
    if (value->kind != Json::Kind::number) fail(expected);
    row.push_back(value->number);
    return;
  }
  if (value->kind != Json::Kind::array || value->items.size() != count) fail(expected);
  for (const Json& number : value->items) {
    if (number.kind != Json::Kind::number) fail(expected);
    row.push_back(number.number);
  }
}

struct Field {
  const char* name;
  std::size_t count;
};
struct Kind {
  const char *name, *array;  // in a problem, and in the messages of World
  std::vector<Field> fields;
};

World world_of(const Json& problem) {
  const Json* valid = member(problem, "valid");
  if (valid != nullptr && valid->kind == Json::Kind::boolean && valid->number == 0)
    fail("the problem is marked invalid");
  const Kind kinds[] = {{"cuboid", "boxes", {{"pose", 7}, {"dims", 3}}},
                        {"cylinder", "cylinders", {{"pose", 7}, {"radius", 0}, {"height", 0}}},
                        {"sphere", "spheres", {{"position", 3}, {"radius", 0}}}};
  std::vector<double> rows[3];
  std::vector<std::string> names[3];
  if (const Json* obstacles = member(problem, "obstacles"); obstacles != nullptr) {
    for (const auto& [kind, items] : object(*obstacles, "obstacles").members) {
      const auto* known = std::find_if(kinds, kinds + 3, [&](const Kind& k) { return k.name == kind; });
      if (known == kinds + 3)
        fail("obstacles: " + model::in_quotes(kind) + " is none of cuboid, cylinder and sphere");
      const std::size_t k = std::size_t(known - kinds);
      const auto add = [&](const Json& item, const std::string& name) {
        object(item, name);
        for (const Field& field : known->fields) append(rows[k], item, field.name, field.count, name);
        names[k].push_back(name);
      };
      if (items.kind == Json::Kind::object) {
        for (const auto& [name, item] : items.members) add(item, kind + " " + model::in_quotes(name));
      } else if (items.kind == Json::Kind::array) {
        for (std::size_t i = 0; i < items.items.size(); i++)
          add(items.items[i], kind + "[" + std::to_string(i) + "]");
      } else {
        fail("obstacles: " + kind + " must be an object or an array, not " + to_string(items.kind));
      }
    }
  }
  WorldView view;
  view.boxes = rows[0], view.cylinders = rows[1], view.spheres = rows[2];
  try {
    return World(view);
  } catch (const InvalidArgument& error) {  // as "boxes[3]: ..."
    std::string message = error.what();
    for (std::size_t k = 0; k < 3; k++) {
      const std::string head = std::string(kinds[k].array) + "[";
      if (message.rfind(head, 0) != 0) continue;
      const std::size_t end = message.find(']');
      const std::size_t row = std::stoul(message.substr(head.size(), end - head.size()));
      message = names[k].at(row) + message.substr(end + 1);
      break;
    }
    fail(message);
  }
}

// The document, as long as somebody reads it.
std::shared_ptr<const Json> parsed(std::string_view text) {
  struct Document {
    std::string text;
    std::shared_ptr<const Json> json;
  };
  static std::mutex mutex;
  static auto& last = *new Document;
  {
    std::lock_guard lock(mutex);
    if (last.json && last.text == text) return last.json;
  }
  std::shared_ptr<const Json> json;
  try {
    json = std::make_shared<const Json>(
        model::parse_json(model::SourceText(text, "problems_json_text", "a JSON document")));
  } catch (const InvalidArgument& error) {
    throw std::runtime_error(error.what());
  }
  std::lock_guard lock(mutex);
  last = {std::string(text), json};
  return json;
}

}  // namespace

World scene(std::string_view text, const std::string& set_name, int index) {
  const std::shared_ptr<const Json> document = parsed(text);
  const Json* sets = document->kind == Json::Kind::object ? member(*document, "problems") : nullptr;
  if (sets == nullptr || sets->kind != Json::Kind::object)
    fail("the document must be an object with the problem sets as \"problems\"");
  const Json* set = member(*sets, set_name);
  if (set == nullptr) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : sets->members) names.push_back(name);
    fail("there is no problem set " + model::in_quotes(set_name) + "; " +
         (names.empty() ? "there are none"
                        : "the nearest names are " + model::nearest_names(set_name, names)));
  }
  if (set->kind != Json::Kind::array)
    fail("problem set " + model::in_quotes(set_name) + " must be an array, not " + to_string(set->kind));
  if (std::size_t(index) >= set->items.size()) {
    fail("problem_idx is " + std::to_string(index) + ", but problem set " + model::in_quotes(set_name) +
         " has " + std::to_string(set->items.size()) + " problems");
  }
  return world_of(object(set->items[std::size_t(index)], "a problem"));
}

}  // namespace hjcdik::native
