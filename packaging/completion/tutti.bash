# Completion of tutti for bash. Verbs and flags are asked of the program itself, so that they are always those of the
# one that is installed.

_tutti_verbs() {
  "$1" --help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z][a-z0-9-]*\) .*/\1/p'
}

_tutti_flags() {
  "$1" "$2" --help 2>/dev/null | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u
}

# What the help calls the value of a flag: FILE, DIR, N ...; nothing where it takes none.
_tutti_value() {
  "$1" "$2" --help 2>/dev/null | sed -nE "s/^ {1,4}(.*, )?$3 ([^ ,]+).*/\2/p" | head -n 1
}

_tutti_files() {
  local line
  compopt -o filenames 2>/dev/null
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$1" -- "$2")
}

_tutti() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb value
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(_tutti_verbs "$program") --help --version" -- "$word")
    return
  fi
  verb=${COMP_WORDS[1]}
  if [[ $before == --* ]]; then
    value=$(_tutti_value "$program" "$verb" "$before")
    case $before in
      --process) mapfile -t COMPREPLY < <(compgen -W "poisson gamma uniform" -- "$word"); return ;;
      --sort) mapfile -t COMPREPLY < <(compgen -W "name rate" -- "$word"); return ;;
    esac
    case $value in
      *DIR*) _tutti_files -d "$word"; return ;;
      *FILE* | *.csv | *.html | STATE) _tutti_files -f "$word"; return ;;
      ?*) return ;; # a number, a name: nothing to suggest
    esac
  fi
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tutti_flags "$program" "$verb")" -- "$word")
  elif [[ $verb == models && $COMP_CWORD == 2 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "check" -- "$word")
  else
    _tutti_files -f "$word"
  fi
}

complete -F _tutti tutti
