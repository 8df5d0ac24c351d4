# Warnings and sanitizers of our own targets. Nothing here reaches a user of the library, but for
# the sanitizers' runtime: an instrumented archive needs it at the final link.
function(hjcdik_private_settings target)
  # A member with a default may be left out of an initialiser: that is what the default is for.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers
    $<$<BOOL:${HJCDIK_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarms on std::string's operator+, GCC bug 105651
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(HJCDIK_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${HJCDIK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${HJCDIK_SANITIZE})
  endif()
endfunction()
