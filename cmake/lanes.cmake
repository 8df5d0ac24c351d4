# src/cpu/lanes.cpp is compiled once per instruction set, each time in a namespace of its own
# (HJCDIK_CORE). The best one that the processor runs is chosen at run time, so none of these
# objects may define a symbol that the linker could share with another: tests/isa_symbols.cmake.
#
# No -ffast-math and no -march=native: the first changes the floating-point mode of the whole
# process that loads us, the second makes a binary that runs on this machine only.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(HJCDIK_ISAS x86_64 avx2 avx512)
else()
  set(HJCDIK_ISAS generic)
endif()
set(optimise -O3)
if(HJCDIK_SANITIZE)
  # The lanes are one large function: instrumented, they compile for minutes otherwise.
  set(optimise -O1 -fno-sanitize-address-use-after-scope)
endif()
set(flags_avx2 -march=haswell)
set(flags_avx512 -march=skylake-avx512 -mprefer-vector-width=512)

foreach(isa IN LISTS HJCDIK_ISAS)
  set(lanes hjcdik_lanes_${isa})
  add_library(${lanes} OBJECT src/cpu/lanes.cpp)
  target_compile_features(${lanes} PRIVATE cxx_std_20)
  target_include_directories(${lanes} PRIVATE include src)
  target_compile_definitions(${lanes} PRIVATE HJCDIK_CORE=core_${isa} HJCDIK_ISA=${isa})
  hjcdik_private_settings(${lanes})
  target_compile_options(${lanes} PRIVATE
    ${flags_${isa}} ${optimise}
    -Wno-psabi  # wide vectors never cross a call: everything is inlined
    -fno-math-errno -fno-trapping-math -ffp-contract=fast -fno-exceptions -fno-rtti)
  set_target_properties(${lanes} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  target_sources(hjcdik PRIVATE $<TARGET_OBJECTS:${lanes}>)
endforeach()
