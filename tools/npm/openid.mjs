// A certified OpenID provider on a free port of this machine, for one client and
// anybody who says who they are. It prints its issuer, then reads the client's
// redirect URI from standard input.
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider } from 'oidc-provider';

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  console.log(issuer);
  createInterface({ input: process.stdin }).once('line', (redirectURI) => {
    const provider = new Provider(issuer, {
      clients: [{
        client_id: 'waypost',
        client_secret: 'pl4nted client secret: with + and %',
        redirect_uris: [redirectURI],
        response_types: ['code'],
        grant_types: ['authorization_code'],
      }],
      pkce: { required: () => true },
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'given_name', 'family_name'] },
      findAccount: (ctx, id) => ({
        accountId: id,
        claims: () => ({
          sub: id, email: `${id}@example.com`, email_verified: id !== 'eve',
          name: 'Ada Lovelace', given_name: 'Ada', family_name: 'Lovelace',
        }),
      }),
    });
    server.on('request', provider.callback());
    console.log('ready');
  });
});
