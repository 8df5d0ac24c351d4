// The text of a robot's description, and what goes wrong in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hjcdik::model {

// `kind` is what the text should be, such as "a URDF". All throw ModelError.
std::string read_text_file(const std::string& path, const std::string& kind);

class SourceText {
 public:
  // Refuses what is empty, too long or not UTF-8. The text must outlive this.
  SourceText(std::string_view text, std::string source, const std::string& kind);

  std::string_view text() const { return text_; }
  const std::string& source() const { return source_; }
  // Of the byte at `offset`; 1-based.
  int line_at(std::size_t offset) const;
  // `label` names the element, such as "joint 'elbow'".
  [[noreturn]] void fail(int line, const std::string& label, const std::string& reason) const;

 private:
  std::string_view text_;
  std::string source_;
  std::vector<std::size_t> line_ends_;
};

}  // namespace hjcdik::model
