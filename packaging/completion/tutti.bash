# Completion of tutti for bash. The program prints the candidates (tutti --complete), so that they always fit the
# installed version: a line each, with a description behind a tab; or ":files" or ":directories" for paths.

_tutti() {
  local word=${COMP_WORDS[COMP_CWORD]} line
  local -a candidates
  COMPREPLY=()
  mapfile -t candidates < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ $word == = ]] && word= # "--flag=": bash makes "=" a word of its own
  case ${candidates[0]} in
    :files | :directories)
      compopt -o filenames 2>/dev/null
      [[ ${candidates[0]} == :files ]] && line=-f || line=-d
      mapfile -t COMPREPLY < <(compgen "$line" -- "$word")
      ;;
    *)
      for line in "${candidates[@]%%$'\t'*}"; do
        [[ $line == "$word"* ]] && COMPREPLY+=("$line")
      done
      ;;
  esac
}

complete -F _tutti tutti
