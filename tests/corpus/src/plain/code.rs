//! Source code, with the words that patterns look for used as code uses them.

use super::lines;
use crate::dice::{ALNUM, BASE64, Dice, LOWER};

pub(crate) fn rust(dice: &mut Dice) -> String {
    let (name, ty) = (dice.snake(2), dice.pascal(2));
    let body = lines(dice, 3, 9, |dice| {
        let (snake, noun, ty) = (dice.snake(2), dice.noun(), dice.pascal(2));
        match dice.below(12) {
            0 => format!("    let token = lexer.next_token()?; // {}", dice.sentence()),
            1 => format!("    let {snake} = {noun}.iter().map(|one| one.key()).collect::<Vec<_>>();"),
            2 => format!(
                "    match token {{ Token::{ty}(inner) => self.{snake}(inner), Token::End => break }}"
            ),
            3 => format!("    password: Secret<String>, secret: {ty}, token: Option<&'a {ty}>,"),
            4 => format!("    if key == \"{noun}\" {{ return Err({ty}::Missing); }}"),
            5 => format!("    const {}: &str = \"{}\";", snake.to_uppercase(), dice.kebab(3)),
            6 => format!("    let secret = vault.open(&place, &sealed)?.{snake}();"),
            7 => "    headers.insert(AUTHORIZATION, bearer(&token)?);".to_owned(),
            8 => format!("    assert_eq!(parse(\"{}={}\"), Ok({ty}::default()));", dice.noun(), dice.noun()),
            9 => format!("    let {noun}_key = format!(\"{{}}/{{}}\", {snake}, {noun});"),
            10 => "    self.api_key = config.api_key.clone(); self.token = token.to_owned();".to_owned(),
            _ => format!("    {snake}({noun}, &mut {})?;", dice.noun()),
        }
    });
    format!(
        "/// {}.\npub(crate) fn {name}(&self) -> Result<{ty}, {ty}Error> {{\n{body}\n}}\n",
        dice.sentence()
    )
}

pub(crate) fn python(dice: &mut Dice) -> String {
    let (name, class) = (dice.snake(2), dice.pascal(2));
    let body = lines(dice, 3, 9, |dice| {
        let (snake, noun) = (dice.snake(2), dice.noun());
        match dice.below(11) {
            0 => format!("        self.{snake} = {noun}.get(\"{snake}\")"),
            1 => format!("        password = getpass.getpass(\"{noun}: \")"),
            2 => "        api_key = os.environ.get(\"API_KEY\")".to_owned(),
            3 => "        token = self.tokenizer.encode(text)".to_owned(),
            4 => "        secret = request.form[\"secret\"]".to_owned(),
            5 => format!("        for key, value in sorted({snake}.items()):"),
            6 => format!("        log.info(\"token %s for %s\", token.id, {noun})"),
            7 => {
                format!("        return {snake}(password=password, token=token, key=lambda one: one.{noun})")
            }
            8 => format!("        # {}", dice.sentence()),
            9 => format!("        self.assertEqual({snake}.password, None)"),
            _ => format!("        {snake}: dict[str, {}] = {{}}", dice.pascal(1)),
        }
    });
    format!(
        "class {class}:\n    def {name}(self, token: str, password: str | None = None) -> bool:\n        \"\"\"{}.\"\"\"\n{body}\n",
        dice.sentence()
    )
}

pub(crate) fn typescript(dice: &mut Dice) -> String {
    let (name, ty) = (dice.camel(2), dice.pascal(2));
    let body = lines(dice, 3, 9, |dice| {
        let (camel, noun) = (dice.camel(2), dice.noun());
        match dice.below(11) {
            0 => "  password: z.string().min(8),".to_owned(),
            1 => "  token: string; secret?: string; apiKey: string | undefined;".to_owned(),
            2 => format!("  const token = await get{}Token({noun});", dice.pascal(1)),
            3 => format!("  headers: {{ Authorization: `Bearer ${{token}}`, 'X-Api-Key': {camel} }},"),
            4 => format!("  export const {camel} = ({noun}: {ty}) => {noun}.key === '{}';", dice.kebab(2)),
            5 => "  const tokenTypes = ['identifier', 'number', 'string'];".to_owned(),
            6 => format!(
                "  {camel}.addEventListener('keydown', (event) => event.key === 'Enter' && {noun}());"
            ),
            7 => format!("  import {{ {} }} from '@{}/{}';", dice.pascal(2), dice.noun(), dice.kebab(2)),
            8 => format!("  if (!password) throw new {ty}Error('password is required');"),
            9 => format!("  <{ty} key={{{noun}.id}} token={{token}} onClick={{() => {camel}({noun})}} />"),
            _ => format!("  localStorage.getItem('{camel}') ?? {noun};"),
        }
    });
    format!("export async function {name}(token: string): Promise<{ty}> {{\n{body}\n}}\n")
}

pub(crate) fn go(dice: &mut Dice) -> String {
    let (name, ty) = (dice.pascal(2), dice.pascal(2));
    let body = lines(dice, 3, 9, |dice| {
        let (camel, noun) = (dice.camel(2), dice.noun());
        match dice.below(9) {
            0 => "\ttoken := lex.Next()".to_owned(),
            1 => format!(
                "\tif err := {noun}.{}(ctx, key); err != nil {{ return fmt.Errorf(\"{noun}: %w\", err) }}",
                dice.pascal(2)
            ),
            2 => "\tPassword string `json:\"password,omitempty\"`".to_owned(),
            3 => "\treq.Header.Set(\"Authorization\", \"Bearer \"+token)".to_owned(),
            4 => format!("\tsecret, ok := os.LookupEnv(\"{}\")", dice.snake(2).to_uppercase()),
            5 => format!("\tfor key, {noun} := range {camel} {{ keys = append(keys, key) }}"),
            6 => format!("\t// {}", dice.sentence()),
            7 => format!("\tassert.Equal(t, \"{}\", cfg.Token)", dice.kebab(2)),
            _ => format!("\t{camel} := make(map[string]*{}, {})", dice.pascal(2), dice.below(99)),
        }
    });
    format!(
        "// {name} {}.\nfunc (s *{ty}) {name}(ctx context.Context, key string) error {{\n{body}\n\treturn nil\n}}\n",
        dice.verb()
    )
}

pub(crate) fn sql(dice: &mut Dice) -> String {
    let table = dice.snake(2);
    let columns = lines(dice, 2, 6, |dice| match dice.below(5) {
        0 => "    password_hash TEXT NOT NULL,".to_owned(),
        1 => "    token_digest BYTEA NOT NULL UNIQUE,".to_owned(),
        2 => format!("    {}_id UUID REFERENCES {}(id) ON DELETE CASCADE,", dice.noun(), dice.noun()),
        3 => "    secret BOOLEAN NOT NULL DEFAULT FALSE,".to_owned(),
        _ => format!("    {} VARCHAR({}),", dice.snake(2), dice.below(255)),
    });
    format!(
        "CREATE TABLE {table} (\n    id UUID PRIMARY KEY,\n{columns}\n    created_at TIMESTAMPTZ NOT NULL\n);\nCREATE INDEX {table}_by_{} ON {table} ({});\nSELECT key, token FROM {table} WHERE id = '{}';\n",
        dice.noun(),
        dice.noun(),
        dice.uuid()
    )
}

pub(crate) fn html(dice: &mut Dice) -> String {
    let (noun, class) = (dice.noun(), dice.kebab(3));
    let path = (0..dice.between(4, 30)).fold(format!("M{} {}", dice.below(24), dice.below(24)), |all, _| {
        format!(
            "{all}c{}.{} {}.{}-{}.{}",
            dice.below(9),
            dice.digits(2),
            dice.below(9),
            dice.digits(2),
            dice.below(9),
            dice.digits(2)
        )
    });
    format!(
        "<form class=\"{class}\" data-id=\"{}\">\n  <label for=\"password\">Password</label>\n  <input id=\"password\" type=\"password\" name=\"password\" autocomplete=\"current-password\">\n  \
         <svg viewBox=\"0 0 24 24\"><path d=\"{path}z\"/></svg>\n</form>\n<style>.{class} {{ color: #{}; --{noun}-{}: {}px; }}</style>\n",
        dice.uuid(),
        dice.hex(6),
        dice.noun(),
        dice.below(99)
    )
}

pub(crate) fn minified(dice: &mut Dice) -> String {
    let many = dice.between(12, 60);
    let mut out = "!function(e,t){\"use strict\";".to_owned();
    for _ in 0..many {
        let (a, b, c) = (dice.run(LOWER, 1), dice.run(LOWER, 1), dice.run(ALNUM, 2));
        let (noun, camel) = (dice.noun(), dice.camel(2));
        out.push_str(&match dice.below(10) {
            0 => format!("var {a}=e({}),{b}=t.n({a});", dice.digits(4)),
            1 => format!("function _{c}({a},{b}){{return {a}.{noun}?{b}:{a}.{camel}({b})}}"),
            2 => format!("t.{camel}=function(e){{return e&&e.__esModule?e.default:e}},"),
            3 => format!("{a}.token=this.token,{a}.key={b}.key||\"{noun}\","),
            4 => format!("for(let {a}=0;{a}<{b}.length;{a}++)_{c}({b}[{a}]);"),
            5 => format!("{b}=void 0===({a}=e.{noun})?null:{a},"),
            6 => format!("\"{noun}\"===e.type&&(e.password=n.password,e.{camel}=!0),"),
            7 => format!("{a}=/^(?:[a-z\\d]+:)?\\/\\//i.test({b}),"),
            8 => format!("{{key:\"{camel}\",value:function(){{return this._{c}}}}},"),
            _ => format!("{a}[\"{noun}\"]={a}[\"{noun}\"]||[],{b}={a}.{camel},"),
        });
    }
    out + "}(window,document);"
}

pub(crate) fn source_map(dice: &mut Dice) -> String {
    let many = dice.between(20, 120);
    let mut maps: Vec<String> = Vec::new();
    for _ in 0..many {
        let length = dice.between(4, 8);
        maps.push(dice.run(&BASE64[..52], length));
    }
    let (a, b) = (dice.path(), dice.path());
    format!(
        "{{\"version\":3,\"file\":\"{}.js\",\"sources\":[\"../{a}\",\"../{b}\"],\"names\":[\"{}\",\"{}\"],\"mappings\":\"{};\"}}",
        dice.noun(),
        dice.camel(2),
        dice.camel(3),
        maps.join(",")
    )
}
