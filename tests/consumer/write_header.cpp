#include <fstream>

#include <hjcdik/hjcdik.hpp>

int main(int, char** arguments) {
  std::ofstream file(arguments[2]);
  file << hjcdik::codegen(hjcdik::Robot::preset(arguments[1]));
  return file.good() ? 0 : 1;
}
