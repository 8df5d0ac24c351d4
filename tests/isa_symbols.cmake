cmake_minimum_required(VERSION 3.25)

# No two objects of the lanes may define the same external symbol: of two weak definitions the
# linker keeps one, and code for AVX-512 would run on a processor without it. For the same reason
# they define nothing of the standard library, which the rest of the program defines too.
set(seen "")
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${object}
    OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${listing}")
  set(symbols "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE " .*" "" symbol "${line}")
    list(APPEND symbols ${symbol})
  endforeach()
  list(LENGTH symbols count)
  message("${object}: ${count} external symbols")
  if(count EQUAL 0)
    message(FATAL_ERROR "${object} defines nothing: it cannot be the lanes")
  endif()
  foreach(symbol IN LISTS symbols)
    # Mangled names of namespace std, its type information and its static data.
    if(symbol MATCHES "^_Z(T[ISV]|GV)?N?K?(St|S[absiod])")
      message(SEND_ERROR "${object} defines ${symbol} of the standard library")
    endif()
    if(symbol IN_LIST seen)
      message(SEND_ERROR "${object} defines ${symbol}, and so does another instruction set's object")
    endif()
  endforeach()
  list(APPEND seen ${symbols})
endforeach()
