#include "model/xml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "model/names.hpp"

namespace hjcdik::model {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::size_t to_offset(std::ptrdiff_t offset) {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
}

}  // namespace

std::string label_of(const char* kind, std::string_view name) {
  return std::string(kind) + " " + in_quotes(name);
}

XmlReader::XmlReader(std::string_view text, const std::string& source, const std::string& kind)
    : SourceText(text, source, kind), root_(read_root(kind)) {}

int XmlReader::line_of(Node node) const { return line_at(to_offset(node.offset_debug())); }

void XmlReader::fail(Node node, const std::string& label, const std::string& reason) const {
  fail(line_of(node), label, reason);
}

pugi::xml_node XmlReader::read_root(const std::string& kind) {
  const pugi::xml_parse_result result =
      document_.load_buffer(text().data(), text().size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    fail(line_at(to_offset(result.offset)), "", std::string("malformed XML: ") + result.description());
  }

  Node root;
  for (const Node node : document_.children()) {
    if (node.type() != pugi::node_element) continue;
    if (root) {
      fail(node, "",
           "a second root element <" + std::string(node.name()) + ">; " + kind + " has one <robot>");
    }
    root = node;
  }
  if (std::string_view(root.name()) != "robot") {
    fail(root, "", "the root element is <" + std::string(root.name()) + ">; " + kind + " has <robot>");
  }
  return root;
}

pugi::xml_node XmlReader::only_child(Node parent, const char* name, const std::string& label) const {
  const Node child = parent.child(name);
  if (const Node second = child.next_sibling(name)) {
    fail(second, label, "a second <" + std::string(name) + ">; keep one");
  }
  return child;
}

std::optional<std::string_view> XmlReader::attribute(Node node, const char* name,
                                                     const std::string& label) const {
  const pugi::xml_attribute found = node.attribute(name);
  if (!found) return std::nullopt;
  const std::string where = "<" + std::string(node.name()) + "> attribute " + name;
  for (pugi::xml_attribute next = found.next_attribute(); next; next = next.next_attribute()) {
    if (std::string_view(next.name()) == name) fail(node, label, where + " is given twice");
  }
  const std::string_view value = found.value();
  if (invalid_utf8(value) != std::string_view::npos) fail(node, label, where + " is not valid text");
  if (value.find("${") != std::string_view::npos || value.find("$(") != std::string_view::npos) {
    fail(node, label,
         where + " is " + in_quotes(value) + ": xacro not expanded; run xacro on the file first");
  }
  return value;
}

std::string XmlReader::required(Node node, const char* name, const std::string& label) const {
  const auto value = attribute(node, name, label);
  if (!value || value->empty()) {
    fail(node, label, "<" + std::string(node.name()) + "> needs a " + std::string(name));
  }
  return std::string(*value);
}

// Locale-independent: std::from_chars always reads a decimal point.
std::vector<double> XmlReader::numbers(Node node, const char* name, std::string_view value,
                                       const std::string& label, std::size_t count) const {
  const std::string where =
      "<" + std::string(node.name()) + "> attribute " + name + " is " + in_quotes(value);
  std::vector<double> found;
  for (std::size_t begin = value.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = value.find_first_not_of(kBlanks, begin)) {
    const std::size_t end = std::min(value.find_first_of(kBlanks, begin), value.size());
    const std::string_view token = value.substr(begin, end - begin);
    begin = end;

    const bool plus = token.size() > 1 && token[0] == '+' && token[1] != '-';
    const std::string_view digits = token.substr(plus ? 1 : 0);
    double x = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    if (error == std::errc::result_out_of_range) {
      fail(node, label, where + ": " + in_quotes(token) + " is beyond the range of a double");
    }
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      fail(node, label, where + ": " + in_quotes(token) + " is not a number");
    }
    if (!std::isfinite(x)) fail(node, label, where + ": numbers must be finite");
    found.push_back(x);
  }
  if (found.size() != count) {
    fail(node, label,
         where + ": " + std::to_string(count) + (count == 1 ? " number" : " numbers") + " expected, " +
             std::to_string(found.size()) + " found");
  }
  return found;
}

double XmlReader::number(Node node, const char* name, const std::string& label, double fallback) const {
  const auto value = attribute(node, name, label);
  return value ? numbers(node, name, *value, label, 1)[0] : fallback;
}

std::array<double, 3> XmlReader::triplet(Node node, const char* name, const std::string& label,
                                         const std::array<double, 3>& fallback) const {
  const auto value = attribute(node, name, label);
  if (!value) return fallback;
  const std::vector<double> x = numbers(node, name, *value, label, 3);
  return {x[0], x[1], x[2]};
}

}  // namespace hjcdik::model
