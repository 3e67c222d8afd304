//! What is written like a secret and holds none: options of other programs, types where values would stand, forms of pages.

use super::lines;
use crate::dice::Dice;

pub(crate) fn commands(dice: &mut Dice) -> String {
    lines(dice, 3, 8, |dice| {
        let (noun, path, kebab) = (dice.noun(), dice.path(), dice.kebab(2));
        let port = dice.between(1024, 9999);
        match dice.below(16) {
            0 => format!("$ mkdir -p {path} && cd {noun}{}", dice.below(99)),
            1 => format!("$ docker run -d -p {port}:80 --name {kebab} {noun}:{}", dice.version()),
            2 => format!("$ cargo test -p {kebab} -p {noun}2"),
            3 => format!("$ ssh -p {port} {}@{}", dice.person(), dice.host()),
            4 => format!("$ grep -a {}{} {path}", dice.snake(2), dice.below(99)),
            5 => format!("$ mysql -h {} -P {port} -u {} -p {noun}", dice.host(), dice.person()),
            6 => format!("PWD=/srv/{noun}{}/{kebab}\nOLDPWD=/srv/{noun}", dice.below(99)),
            7 => format!("declare -x PWD=\"/srv/{noun}/{kebab}\""),
            8 => format!("usage: {noun} [--password PASSWORD] [--token TOKEN] {}", noun.to_uppercase()),
            9 => "  -p, --password string      Password or Personal Access Token (PAT)".to_owned(),
            10 => format!("$ {noun} --token \"$TOKEN\" --api-key \"${{API_KEY}}\" {path}"),
            11 => format!("$ docker run -u 1000:1000 {noun}:{}", dice.version()),
            12 => format!("$ git push -u origin {kebab}:{kebab}"),
            13 => format!("{}:{port}:{}: warning: unused variable `{noun}`", dice.path(), dice.below(80)),
            14 => format!("$ cp -p {path} /srv/{noun}{}", dice.below(99)),
            _ => format!("$ ls -a {noun}{}", dice.below(99)),
        }
    })
}

pub(crate) fn declarations(dice: &mut Dice) -> String {
    lines(dice, 3, 9, |dice| {
        let (snake, noun, pascal) = (dice.snake(2), dice.noun(), dice.pascal(2));
        let upper = snake.to_uppercase();
        match dice.below(20) {
            0 => format!("    pub {noun}_passwd: *const c_char,"),
            1 => format!("pub const {upper}_COOKIE: c_int = {};", dice.below(99)),
            2 => format!("pub const {upper}_AUTHORIZATION: u32 = {}u32;", dice.below(99)),
            3 => format!("static NEXT_TOKEN: AtomicUsize = AtomicUsize::new({});", dice.below(9)),
            4 => format!("    I: Stream<Token = u8> + {pascal},"),
            5 => format!("    {noun}_token: {pascal}2,"),
            6 => format!("    {noun}_token: *{noun},"),
            7 => "    password: impl AsRef<[u8]>,".to_owned(),
            8 => format!("//! [`{pascal}Tokens`]: https://{}/{snake}/trait.{pascal}Tokens.html", dice.host()),
            9 => format!("        self.{noun}, self.password = {noun}, password"),
            10 => format!("        self.passwd = {snake}"),
            11 => format!("    my ($self, $pass) = @_; pass => ${noun},"),
            12 => format!("    ($text:expr, [$($token:expr),+$(,)?]) => {{ {snake}!() }}"),
            13 => format!("/// Opens the {noun} identified by `{snake}`."),
            14 => format!("    {pascal}Authorization = {},", dice.below(99)),
            15 => format!("{snake}:\n  password:\n    type: string\n    minLength: {}\n", dice.below(20)),
            16 => format!("tokens:\n  - {noun}\n  - {}\n", dice.kebab(2)),
            17 => format!(
                "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: {noun}{}\n",
                dice.below(9)
            ),
            18 => format!(
                "\"password\": {{\n  \"type\": \"string\",\n  \"description\": \"{}\"\n}}",
                dice.sentence()
            ),
            _ => format!("    def {snake}(self, path=None, pwd=None, token=None):"),
        }
    })
}

pub(crate) fn pages(dice: &mut Dice) -> String {
    lines(dice, 2, 6, |dice| {
        let (noun, kebab, letter) = (dice.noun(), dice.kebab(2), dice.run("abcdefgh123", 1));
        match dice.below(8) {
            0 => format!("<li><a href=\"{kebab}.html\" accesskey=\"{letter}\">{noun}</a></li>"),
            1 => format!("<label for=\"password\">Password{}</label>", dice.below(9)),
            2 => format!("<input type=\"password\" name=\"password\" placeholder=\"{noun}\" value=\"\">"),
            3 => format!("<option value=\"token\">{noun}{}</option>", dice.below(99)),
            4 => format!("<button name=\"password\" class=\"{kebab}\">Change password</button>"),
            5 => {
                format!("<property name=\"password\" type=\"string\"/>\n<{noun} id=\"{}\"/>", dice.below(99))
            }
            6 => format!("<key>CFBundleName</key>\n<string>{}{}</string>", dice.pascal(2), dice.below(99)),
            _ => {
                format!("| password | string | the password of the {noun} |\n| token | required | {kebab} |")
            }
        }
    })
}
