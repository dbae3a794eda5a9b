# Login shells start from /etc/profile's PATH, which lacks what pip installs for the user.
case ":$PATH:" in
*":$HOME/.local/bin:"*) ;;
*) PATH="$HOME/.local/bin:$PATH" ;;
esac
export LANG="${LANG:-C.UTF-8}"
