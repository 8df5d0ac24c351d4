// Reading XML with errors that name file, line and element.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pugixml.hpp>

#include "model/text.hpp"

namespace hjcdik::model {

// `label` names the element in messages, such as "joint 'elbow'". All throw ModelError.
class XmlReader : public SourceText {
 public:
  using Node = pugi::xml_node;

  // `kind`: "a URDF" or "an SRDF"; both have the root <robot>.
  XmlReader(std::string_view text, const std::string& source, const std::string& kind);

  Node root() const { return root_; }
  int line_of(Node node) const;

  using SourceText::fail;
  [[noreturn]] void fail(Node node, const std::string& label, const std::string& reason) const;

  // Nothing where there is none; a second one is an error.
  Node only_child(Node parent, const char* name, const std::string& label) const;
  std::optional<std::string_view> attribute(Node node, const char* name, const std::string& label) const;
  std::string required(Node node, const char* name, const std::string& label) const;
  double number(Node node, const char* name, const std::string& label, double fallback) const;
  std::array<double, 3> triplet(Node node, const char* name, const std::string& label,
                                const std::array<double, 3>& fallback) const;

 private:
  Node read_root(const std::string& kind);
  std::vector<double> numbers(Node node, const char* name, std::string_view value, const std::string& label,
                              std::size_t count) const;

  pugi::xml_document document_;
  Node root_;
};

std::string label_of(const char* kind, std::string_view name);

}  // namespace hjcdik::model
